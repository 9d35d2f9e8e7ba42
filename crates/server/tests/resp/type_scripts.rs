//! Scripts of commands on keys of every type, and of the bits of strings, on both servers: see
//! `collection_scripts`.

pub(crate) const ALL: &[(&str, &str)] =
    &[("types", TYPES), ("bits", BITS), ("numbers in C's notations", NOTATIONS)];

const TYPES: &str = r#"
set str v
hset hash f v
rpush list e
sadd set m
zadd sorted 1 m
type str
type hash
type list
type set
type sorted
get hash
get list
get set
get sorted
mget str hash list
getdel hash
getex hash
getex hash ex 10
getset hash v
set hash v get
append hash v
strlen hash
getrange hash 0 1
setrange hash 0 x
incr hash
incrby hash 1
incrbyfloat hash 1
decr hash
hget str f
hset str f v
hset list f v
hmget str f
hgetall str
hdel str f
hlen list
hincrby set f 1
hincrbyfloat set f 1
hrandfield str
hrandfield str 1
hscan str 0
hsetnx str f v
lpush str a
lpushx str a
rpush hash a
lrange hash 0 -1
llen str
lindex str 0
lset str 0 a
linsert str before a b
lrem str 0 a
ltrim str 0 1
lpop str
lpop str 1
lpos str a
lmove str list left left
lmove list str left left
lrange list 0 -1
rpoplpush list hash
lmpop 1 str left
lmpop 2 none hash left
sadd str a
sadd hash a
srem str a
smembers str
sismember str a
smismember str a
scard str
spop str
spop str 1
srandmember str
srandmember str 1
smove str set a
smove set str m
smove none str m
sinter set str
sinter none str
sinter str none
sunion set hash
sdiff set list
sdiff none str
sinterstore d set str
sintercard 2 set str
sscan str 0
zadd str 1 a
zincrby str 1 a
zrem str a
zscore str a
zmscore str a
zcard str
zcount str 1 2
zlexcount str - +
zrank str a
zrange str 0 -1
zrange str 1 2 byscore
zrangestore d str 0 -1
zrangebyscore hash 1 2
zremrangebyrank str 0 1
zremrangebyscore str 0 1
zremrangebylex str - +
zpopmin str
zmpop 1 str min
zrandmember str
zrandmember str 1
zunion 2 sorted str
zunion 2 sorted hash
zinter 2 sorted list
zdiff 1 str
zunionstore d 2 sorted str
zscan str 0
get str
? keys *
scan 0 type hash count 1000
scan 0 type zset count 1000
scan 0 type string count 1000
scan 0 type list count 1000
scan 0 type set count 1000
scan 0 type bogus count 1000
scan 0 type HASH count 1000
expire hash 100
ttl hash
hset hash g w
ttl hash
pexpire hash 100000
ttl hash
persist hash
persist hash
ttl hash
expireat list 4000000000
expiretime list
pexpireat list 4000000000123
pexpiretime list
rpush list f
pexpiretime list
expire list 10 nx
expire list 100 lt
ttl list
expire list 50 gt
ttl list
expire set -1
exists set
sadd set m
rename hash hash2
?2 hgetall hash2
exists hash
rename list list2
ttl list2
copy list2 list3
ttl list3
lrange list3 0 -1
copy list3 str
copy list3 str replace
type str
lrange str 0 -1
renamenx list2 str
renamenx list2 list4
copy sorted sorted2
zrange sorted2 0 -1 withscores
rename sorted2 list3
type list3
set list3 v
get list3
hset over f v
expire over 1000
set over v keepttl
ttl over
setnx hash2 v
set hash2 v nx
set hash2 v xx
get hash2
rpush q a
set q v
get q
mset q2 v list4 w
get list4
sadd del1 a
sadd del2 a
del del1 del2
exists del1 del2
touch sorted none
object refcount sorted
object idletime sorted
~ memory usage sorted
object encoding none
multi
rpush inmulti a b
lpop inmulti
hset inmulti f v
lrange inmulti 0 -1
exec
multi
zadd zm 1 a
zincrby zm 2 a
zrange zm 0 -1 withscores
sadd sm x
smove sm sm2 x
smembers sm2
exec
watch inmulti
rpush inmulti c
multi
llen inmulti
exec
watch inmulti
llen inmulti
multi
llen inmulti
exec
watch inmulti
expire inmulti 1000
multi
llen inmulti
exec
watch inmulti
del inmulti
rpush inmulti b c
multi
llen inmulti
exec
command getkeys zunionstore d 2 a b
command getkeys zunion 2 a b
command getkeys lmpop 2 a b left
command getkeys sintercard 5 a b
command getkeys sintercard 2 a b limit 1
command getkeys hset h a 1
command getkeys smove a b c
command getkeys sinter a b c
"#;

const BITS: &str = r#"
setbit b 7 1
get b
setbit b 7 1
setbit b 7 0
get b
setbit b 17 1
get b
getbit b 17
getbit b 16
getbit b 1000
getbit none 0
getbit b -1
getbit b abc
getbit b 4294967296
setbit b -1 1
setbit b 4294967296 1
setbit b 0 2
setbit b 0 abc
setbit b abc 1
setbit b 0
setbit e 0 0
get e
expire e 100
setbit e 1 1
ttl e
set s foobar
bitcount s
bitcount s 0 0
bitcount s 1 1
bitcount s 1 -1
bitcount s -2 -1
bitcount s -1 -2
bitcount s -1 -2 bogus
bitcount s 5 30 bit
bitcount s 5 30 byte
bitcount s 0 -1 bit
bitcount s 3 5 bit
bitcount s 7 8 bit
bitcount s -9 -3 bit
bitcount s 100 200
bitcount s 0 1 bogus
bitcount s 0
bitcount s a b
bitcount none
bitcount none a b
bitcount
set p "\xff\xf0\x00"
bitpos p 0
bitpos p 1
bitpos p 1 2
bitpos p 1 2 -1
bitpos p 0 0 1
bitpos p 0 0 0
bitpos p 0 2
bitpos p 1 -1
bitpos p 0 13 20 bit
bitpos p 1 13 20 bit
bitpos p 1 3 20 bit
bitpos p 0 3 5 bit
bitpos p 1 5 2
bitpos p 2
bitpos p a
bitpos p 1 a
bitpos p 1 0 a
bitpos p 1 0 1 bogus
bitpos p 1 0 1 bit x
bitpos none 0
bitpos none 1
bitpos none 1 a
set ones "\xff\xff"
bitpos ones 0
bitpos ones 0 0
bitpos ones 0 0 -1
bitpos ones 0 0 -1 bit
set empty ""
bitpos empty 0
bitpos empty 1
bitcount empty
bitop and d s p
get d
bitop or d s p
get d
bitop xor d s p none
get d
bitop not d p
get d
bitop not d p s
bitop bogus d p
bitop and d
bitop and d none none2
exists d
bitop or d s
get d
setbit d 0 1
get s
bitfield f set u8 0 255 get u8 0 get i8 0 get u4 4
bitfield f incrby u8 0 10
bitfield f overflow sat incrby u8 0 300 incrby u8 0 -500
bitfield f overflow fail incrby u8 0 -1 set u8 8 7
bitfield f set u8 8 300
bitfield f overflow sat set u8 8 300
bitfield f overflow fail set u8 8 300
bitfield f set i8 8 -1 get u8 8
bitfield f set u8 8 -1
bitfield f incrby i8 8 -128 incrby i8 8 -128
bitfield f overflow sat incrby i8 8 -200 incrby i8 8 500
bitfield f set i64 #1 -9223372036854775808 incrby i64 #1 -1
bitfield f overflow sat incrby i64 #1 10
bitfield f get u63 0 get i64 3 get u1 0
bitfield f set i5 3 -7 get i5 3 get u5 3
get f
bitfield f
bitfield none get u8 0 get i16 #5
exists none
bitfield fails overflow fail set u8 0 300
exists fails
bitfield f get u64 0
bitfield f get i65 0
bitfield f get x8 0
bitfield f get u0 0
bitfield f get u 0
bitfield f get u8 -1
bitfield f get u8 abc
bitfield f get u8 #536870912
bitfield f get u8
bitfield f set u8 0
bitfield f set u8 0 abc
bitfield f overflow bogus get u8 0
bitfield f overflow
bitfield f bogus
bitfield_ro f get u8 0
bitfield_ro f set u8 0 1
bitfield_ro f incrby u8 0 1
bitfield_ro none get u8 0
rpush list a
setbit list 0 1
getbit list 0
bitcount list
bitpos list 1
bitop or d s list
bitfield list get u8 0
bitfield list set u8 0 1
command getkeys bitop and d a b
"#;

const NOTATIONS: &str = r#"
zadd z 1e17 a 0x1p3 b -0x1.8p1 c 1e18 d 4e18 e 1e19 f 0.1 g inf h -1e17 i
zscan z 0
zrange z 0 -1 withscores
zadd z 0x j
zadd z 0x1p j
zadd z 0x1g j
zadd z "" j
zadd z " 1" j
zadd z "1 " j
zadd z -0 j
zscore z j
zscore z c
zincrby z 0x10 b
zrangebyscore z 0x8 0x1p6 withscores
zrangebyscore z " 0x8" " 30"
zrangebyscore z (0x18 +inf
zrangebyscore z "8 " 9
zcount z " -4" 0X10
incrbyfloat f 0x10
incrbyfloat f 0x1p-2
incrbyfloat f " 1"
hincrbyfloat h f 0x1p2
hincrbyfloat h f " 3"
set e ""
sort e
sort e alpha
rpush l "" 3 0x10 " 1" 2
sort l
sort l desc
rpush m "1 "
sort m
rpush n " "
sort n
mset w_a "" w_b 2 w_c 0x1
rpush o a b c
sort o by w_*
sadd s1 m
sadd s2 m
smove s1 s2 m
smembers s2
scard s1
"#;
