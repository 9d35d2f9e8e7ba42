//! Scripts that are played on both servers: commands as one types them. Of those with `~` before
//! them only the kind of the reply is compared, as the rest depends on the server or on the time.

pub(crate) const ALL: &[(&str, &str)] = &[
    ("set and get", SET),
    ("strings", STRINGS),
    ("numbers", NUMBERS),
    ("ends", ENDS),
    ("keys", KEYS),
    ("transactions", TRANSACTIONS),
    ("counting in a transaction", COUNTING_IN_A_TRANSACTION),
    ("connection", CONNECTION),
    ("errors", ERRORS),
    ("what a server tells of itself", ITSELF),
];

const SET: &str = r#"
set twice v px 100000 px 200000
~ pttl twice
set twice v ex 0 ex 100
ttl twice
set twice v exat 1 exat 4000000000
expiretime twice
set twice v ex 100 pxat 4000000000000
set twice v ex 100 exat 4000000000
set twice v keepttl keepttl
set twice v keepttl px 1
set twice v px 1 keepttl
set twice v nx nx
set twice v ex abc ex
del twice
get k
set k v
get k
set k w nx
set k w xx
get k
set missing w xx
set new w nx
set k x get
set missing2 x get
get missing2
set k y xx get
set none y xx get
set k z nx get
get k
set k ""
get k
strlen k
set k v ex 100
ttl k
set k v2 keepttl
ttl k
set k v3
ttl k
set k v px 100000
ttl k
set k v exat 4000000000
expiretime k
set k v pxat 4000000000123
pexpiretime k
set k v exat 1
get k
set k v ex 0
set k v ex -1
set k v px 0
set k v ex abc
set k v ex
set k v ex 10 px 10
set k v ex 10 keepttl
set k v keepttl ex 10
set k v nx xx
set k v bogus
set k v ex 9223372036854775807
set k v px 9223372036854775807
set k v ex 10 bogus
set k v ex 0 bogus
set k v get get
set k v KeepTTL NX
set k
set
get
get a b
setnx k v
setnx n v
setnx n w
get n
setex k 100 v
ttl k
setex k 0 v
setex k -1 v
setex k abc v
setex k 9223372036854775807 v
psetex k 100000 v
ttl k
psetex k 0 v
getset k other
ttl k
get k
getset fresh v
getdel fresh
getdel fresh
getdel
getex k
getex k ex 100
ttl k
getex k persist
ttl k
getex k px 100000
ttl k
getex k exat 4000000000
expiretime k
getex k pxat 4000000000123
pexpiretime k
getex k exat 1
exists k
getex missing ex 10
getex k ex 0
getex k ex abc
getex k bogus
getex k ex
getex k persist ex 10
mset a 1 b 2
mget a b c
mset a
mset a 1 b
mget
msetnx a 1 z 2
exists z
msetnx y 1 z 2
mget y z
msetnx a
msetnx a 1 b
mset a 1 a 2
get a
set "bin\x00key" "\x00\xff\r\n"
get "bin\x00key"
SET UPPER case
GeT UPPER
"#;

const STRINGS: &str = r#"
append k abc
append k def
get k
append k ""
append
strlen k
strlen none
getrange k 0 -1
getrange k 1 3
getrange k -3 -1
getrange k -1 -3
getrange k 5 100
getrange k 100 200
getrange k 0 -100
getrange k -100 2
getrange k 2 1
getrange none 0 -1
getrange k a b
substr k 0 2
setrange k 1 XYZ
get k
setrange k 10 end
get k
setrange none 0 ""
exists none
setrange none 3 abc
get none
setrange k -1 a
setrange k abc a
setrange k 0 ""
setrange k 536870912 a
setrange k 4000000000 a
set t v ex 100
append t w
ttl t
setrange t 0 z
ttl t
get t
"#;

const NUMBERS: &str = r#"
incr n
incr n
incrby n 40
decr n
decrby n 2
decrby n -2
get n
incrby n abc
incrby n 1.5
incrby n
set n 9223372036854775807
incr n
incrby n -1
set n -9223372036854775808
decr n
decrby n 1
decrby n -9223372036854775808
incrby n -1
set s abc
incr s
set s " 1"
incr s
set s "1 "
incr s
set s ""
incr s
set s 01
incr s
set s +1
incr s
set s 12345678901234567890
incr s
set e 5 ex 100
incr e
ttl e
object encoding e
incrbyfloat f 1.5
incrbyfloat f 0.1
incrbyfloat f -1.6
get f
incrbyfloat f 5.0e3
incrbyfloat f 200
~ incrbyfloat f 1e-5
incrbyfloat f abc
incrbyfloat f inf
incrbyfloat f nan
incrbyfloat f
set g 10.50
incrbyfloat g 0.1
set g 3
incrbyfloat g 1.000000000000001
set g abc
incrbyfloat g 1
set g " 1.5"
incrbyfloat g 1
incrbyfloat e 0.5
ttl e
"#;

const ENDS: &str = r#"
ttl k
pttl k
expiretime k
pexpiretime k
set k v
ttl k
pttl k
expiretime k
pexpiretime k
expire k 100
ttl k
~ pttl k
persist k
persist k
ttl k
pexpire k 100000
ttl k
expireat k 4000000000
expiretime k
pexpiretime k
pexpireat k 4000000000123
pexpiretime k
expiretime k
expire none 100
persist none
expire k 200 nx
expire k 200 xx
ttl k
expire k 100 gt
ttl k
expire k 300 gt
ttl k
expire k 400 lt
ttl k
expire k 100 lt
ttl k
persist k
expire k 100 gt
expire k 100 xx
expire k 100 lt
ttl k
persist k
expire k 100 nx
expire k 100 nx
expire k 10 nx xx
expire k 10 nx gt
expire k 10 nx lt
expire k 10 gt lt
expire k 10 xx gt
expire k 10 xx lt
ttl k
expire k 10 bogus
expire k 10 nx bogus
expire k abc
expire k 9223372036854775807
pexpire k 9223372036854775807
expireat k 9223372036854775807
expire k -9223372036854775808
expire k
expire k 0
exists k
set k v
expire k -1
exists k
set k v
pexpireat k 1
exists k
set k v
expire k 10 xx
ttl k
set k v px 4000000
getrange k 0 0
~ object idletime k
"#;

const KEYS: &str = r#"
del a
mset a 1 b 2 c 3
exists a b c d a
exists
del a a d
exists a
unlink b c
dbsize
type a
set a 1
type a
type
touch a b
touch
rename a b
rename a b
rename b b
rename
get b
renamenx b c
mset x 1 y 2
renamenx x y
renamenx x x
renamenx none y
rename none none
set t v ex 100
rename t u
ttl u
ttl t
copy u w
ttl w
get w
copy u w
copy u w replace
copy u u
copy none w
copy u w db 0
copy u w db 0 replace
copy u w db 1
copy u w db abc
copy u w bogus
copy u
flushall
keys *
dbsize
randomkey
mset one 1 two 2
dbsize
keys o*
keys ?wo
keys nothing
keys
scan 0 match zzz
scan abc
~ scan -1
scan 0 count 0
scan 0 count abc
scan 0 bogus
scan 0 count
scan 0 match zzz count 100
scan 0 type hash
scan
~ scan 0
flushdb
flushdb async
flushall sync
flushall bogus
dbsize
set i 12345
object encoding i
set i hello
object encoding i
set i 012
object encoding i
set i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
object encoding i
set i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
object encoding i
object encoding none
object refcount i
object freq i
object freq none
object idletime none
object bogus i
object encoding
object
object encoding i j
~ object help
~ memory usage i
memory usage none
memory usage
memory usage i bogus
~ memory usage i samples 5
memory bogus
"#;

const TRANSACTIONS: &str = r#"
multi
set a 1
incr a
get a
exec
get a
multi
multi
watch a
discard
exec
discard
multi
set a
set a 5
exec
get a
multi
bogus
exec
multi
incr a
get a b
exec
multi
set s abc
incr s
get s
exec
get s
multi
exec
multi
set q 1
discard
get q
watch a
set a 9
multi
set a 10
exec
get a
watch a
multi
set a 11
exec
get a
watch a
set a 12
unwatch
multi
set a 13
exec
watch a b
expire a 100
multi
get a
exec
watch none
set none 1
multi
get none
exec
watch
multi extra
exec extra
watch a
get a
multi
get a
exec
multi
mset x 1 y 2
msetnx x 1 z 2
rename x xx
copy xx yy
mget xx y yy z
exists xx yy y z
exec
multi
ping
echo hi
select 0
select 1
time extra
unwatch
exec
multi
flushall
dbsize
exec
"#;

const COUNTING_IN_A_TRANSACTION: &str = r#"
flushall
mset a 1 b 2
multi
set c 3
dbsize
del a
dbsize
exec
"#;

const CONNECTION: &str = r#"
ping
ping hello
ping a b
echo hi
echo
echo a b
select 0
select 1
select -1
select abc
select
role
role extra
swapdb 0 0
swapdb 0 1
swapdb a 0
swapdb 0 b
~ time
time a
~ client id
client getname
client setname me
client getname
client setname "a b"
client setname ""
client getname
client setname
client bogus
client
client reply bogus
client no-evict on
client no-evict bogus
client list type master
client list type bogus
client list bogus
client list id abc
client list id 0
~ client info
~ client list
~ client help
hello 4
hello abc
hello 2 bogus
hello 2 setname
hello 2 auth default
hello 2 auth nobody x
hello 2 setname "a b"
~ hello
auth x
auth default x
auth nobody x
auth
auth a b c
auth default
debug sleep 0
config get databases
config get save
config get appendonly
config get nothing*
config get
config bogus
config
~ config get maxmemory
~ config resetstat
~ info
~ info server
info nothing
command count extra
command bogus
command getkeys get a
command getkeys mset a 1 b 2
command getkeys ping
command getkeys bogus
command getkeys get
command getkeys
command list filterby bogus x
command list filterby pattern psetex
command list bogus
command info bogus
command docs bogus
~ command
~ command count
~ command docs get
~ command list
~ command help
reset
quit extra
"#;

const ERRORS: &str = r#"
bogus
bogus a b c
bogus "with\r\nline ends" "\x00"
bogus aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa x
"" a
GET
SeTeX a
persist
getset a
decr
mget
incrbyfloat a
pexpireat a
object
"#;

const ITSELF: &str = r#"
latency
latency bogus
latency history
latency history a b
latency history command
latency graph command
latency graph
latency latest x
latency latest
latency reset
latency reset a b
latency doctor x
~ latency doctor
latency histogram nosuch
~ latency help
?2 config get latency*
~ info commandstats
object freq missing
set k v
object freq k
client pause
client pause x
client pause -1
client pause 1 foo
client pause 1 all foo
client pause 0
client unblock
client unblock x
client unblock 5 foo
client unblock 5
client unblock 5 timeout
client unblock 5 timeout x
client unpause x
client unpause
pubsub
pubsub bogus
pubsub channels a b
pubsub channels
pubsub channels __redis*
pubsub numsub a b __redis__:invalidate
pubsub numsub
pubsub numpat x
pubsub numpat
pubsub shardchannels a b
pubsub shardchannels
pubsub shardnumsub a
~ pubsub help
command getkeysandflags
command getkeysandflags set
command getkeysandflags ping x
command getkeysandflags nosuch a
command getkeysandflags get a
command getkeysandflags set a b
command getkeysandflags set a b ex 5 get
command getkeysandflags bitfield a get u8 0
command getkeysandflags bitfield a set u8 0 1
command getkeysandflags mset a 1 b 2
command getkeysandflags sort a by x_* store b
command getkeysandflags bitop and a b c
command getkeysandflags zunionstore a 2 b c
command getkeysandflags lmpop 2 a b left
command getkeysandflags rename a b
command info append auth bitcount bitfield bitfield_ro bitop bitpos copy
command info dbsize debug decr decrby del discard echo exec
command info exists expire expireat expiretime flushall flushdb get getbit
command info getdel getex getrange getset hdel hello hexists hget
command info hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield
command info hscan hset hsetnx hstrlen hvals incr incrby incrbyfloat
command info info keys lcs lindex linsert llen lmove lmpop
command info lpop lpos lpush lpushx lrange lrem lset ltrim
command info mget mset msetnx multi persist pexpire pexpireat pexpiretime
command info ping psetex pttl quit randomkey rename renamenx reset
command info rpop rpoplpush rpush rpushx sadd scan scard sdiff
command info sdiffstore select set setbit setex setnx setrange sinter
command info sintercard sinterstore sismember smembers smismember smove sort sort_ro
command info spop srandmember srem sscan strlen subscribe substr sunion
command info role
command info sunionstore swapdb time touch ttl type unlink unsubscribe
command info unwatch watch zadd zcard zcount zdiff zdiffstore zincrby
command info zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin
command info zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex
command info zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore
command info zunion zunionstore
subscribe __redis__:invalidate
pubsub channels
"#;
