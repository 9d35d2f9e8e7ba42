//! Hashes, lists, sets and sorted sets, on both servers: see `scripts`.
//!
//! Of commands with `?` before them the elements of the reply are compared in any order, and with
//! `?2` pairs of elements: hashes and sets have no order, and Redis's small ones have one.

pub(crate) const ALL: &[(&str, &str)] = &[
    ("hashes", HASHES),
    ("lists", LISTS),
    ("sets", SETS),
    ("several sets", SEVERAL_SETS),
    ("sorted sets", SORTED),
    ("ranges", RANGES),
    ("several sorted sets", SEVERAL_SORTED),
];

const HASHES: &str = r#"
hset h a 1
hset h a 2 b 3 c 4
hset h d 5 d 6
hget h d
hset h
hset h a
hset h a 1 b
hset h "" ""
hget h ""
hdel h ""
hmset h a 1 e 7
hmset h a
hmset h a 1 b
hget h a
hget h none
hget none a
hget h
hmget h a none b a
hmget none a b
hmget h
?2 hgetall h
hgetall none
? hkeys h
hkeys none
? hvals h
hvals none
hlen h
hlen none
hexists h a
hexists h none
hexists none a
hstrlen h a
hstrlen h none
hstrlen none a
hsetnx h a 9
hsetnx h z 9
hget h z
hsetnx fresh a 1
hget fresh a
hdel h a none z z
hdel h none
hdel none a
hdel h
hincrby h n 5
hincrby h n -7
hincrby h n abc
hincrby h n
hset h s text
hincrby h s 1
hset h max 9223372036854775807
hincrby h max 1
hincrby h max -1
hset h sp " 1"
hincrby h sp 1
hincrbyfloat h f 1.5
hincrbyfloat h f 0.1
hincrbyfloat h f -1.6
hincrbyfloat h f abc
hincrbyfloat h f inf
hincrbyfloat h f nan
hincrbyfloat h s 1
hincrbyfloat h f 5.0e3
hincrbyfloat h n 0.5
hget h n
hincrbyfloat newhash f 3.25
hdel fresh a
exists fresh
type fresh
type h
hrandfield none
hrandfield none 3
hrandfield none 3 withvalues
hset one f v
hrandfield one
hrandfield one 1
hrandfield one 5
hrandfield one -3
hrandfield one 0
hrandfield one 1 withvalues
hrandfield one -2 withvalues
hrandfield one abc
hrandfield one 1 bogus
hrandfield one 1 withvalues x
hrandfield one -9223372036854775808
hrandfield one -9223372036854775807 withvalues
? hrandfield h 100
hset three a 1 b 2 c 3
? hrandfield three 3
?2 hrandfield three 3 withvalues
~ hrandfield three 2
~ hrandfield three -20
hscan one 0
hscan one 0 match f*
hscan one 0 match g*
hscan one 0 count 100
hscan one 0 count 0
hscan one 0 count abc
hscan one 0 bogus
hscan one 0 type string
hscan one abc
hscan none 0
hscan none 0 bogus
hscan none abc
hscan one
hset big a 1
object encoding big
hset big b xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
object encoding big
hdel big b
object encoding big
del big
hset big a 1
object encoding big
"#;

const LISTS: &str = r#"
rpush l a b c
lpush l z y
lrange l 0 -1
rpush l
lpush l
lpushx none a
rpushx none a
exists none
lpushx l x
rpushx l d e
lrange l 0 -1
llen l
llen none
lrange l 1 2
lrange l -2 -1
lrange l 5 2
lrange l -100 100
lrange l 100 200
lrange none 0 -1
lrange l a b
lrange l 0
lindex l 0
lindex l -1
lindex l 100
lindex l -100
lindex l abc
lindex none 0
lindex none abc
lset l 0 X
lset l -1 E
lset l 100 a
lset l -100 a
lset l abc a
lset none 0 a
lset none abc a
lset l 0
lrange l 0 -1
linsert l before a 1
linsert l after a 2
linsert l after nothing 2
linsert none before a 1
linsert l bogus a 1
linsert l BEFORE a
lrange l 0 -1
lpop l
rpop l
lpop l 2
rpop l 2
lpop l 0
lpop none
lpop none 2
lpop none 0
lpop l -1
lpop l abc
lpop l 1 2
rpop l 1 2
rpop
lpop l 100
exists l
rpush m a b a c a d a
lrem m 2 a
lrange m 0 -1
lrem m -1 a
lrange m 0 -1
lrem m 0 a
lrange m 0 -1
lrem m 0 none
lrem none 0 a
lrem m abc a
lrem m 1
rpush t a b c d e f
ltrim t 1 3
lrange t 0 -1
ltrim t -2 -1
lrange t 0 -1
ltrim t 0 100
lrange t 0 -1
ltrim t 5 10
exists t
ltrim none 0 1
ltrim none a b
rpush p a b c 1 2 3 c c
lpos p c
lpos p c rank 2
lpos p c rank -1
lpos p c rank -2
lpos p c rank 5
lpos p c count 2
lpos p c count 0
lpos p c rank -1 count 2
lpos p c maxlen 2
lpos p c maxlen 3
lpos p c count 0 maxlen 4
lpos p c rank -1 count 0 maxlen 2
lpos p none
lpos p none count 1
lpos none a
lpos none a count 1
lpos p c rank 0
lpos p c rank abc
lpos p c rank -9223372036854775808
lpos p c count -1
lpos p c maxlen -1
lpos p c maxlen x
lpos p c count x
lpos p c count -1
lpos p c bogus 1
lpos p c rank
lpos p
rpush s a b c
lmove s d left right
lmove s d right left
lmove s d bogus left
lmove s d left bogus
lmove s d left
lmove none d left left
lmove s s left right
lrange s 0 -1
lrange d 0 -1
rpush r 1 2 3
lmove r r left right
lrange r 0 -1
lmove r r right right
rpoplpush r r
lrange r 0 -1
rpoplpush r other
rpoplpush r other
rpoplpush r other
rpoplpush r other
exists r
lrange other 0 -1
rpoplpush none other
rpoplpush other
rpush u a b c d
lmpop 1 u left
lmpop 2 none u right count 2
lmpop 2 none none2 left
lmpop 1 none left count 5
lmpop 0 u left
lmpop -1 u left
lmpop abc u left
lmpop 3 u left
lmpop 1 u bogus
lmpop 1 u left count 0
lmpop 1 u left count abc
lmpop 1 u left bogus 1
lmpop 1 u left count 1 count 1
lmpop 1 u
lmpop 1 u left count 100
exists u
rpush enc a
object encoding enc
type enc
rpush empty ""
lrange empty 0 -1
lpos empty ""
rpush bin "\x00\xff" "\r\n"
lrange bin 0 -1
"#;

const SETS: &str = r#"
sadd s a b c a
sadd s a d
sadd s
? smembers s
smembers none
scard s
scard none
sismember s a
sismember s z
sismember none a
smismember s a z b a
smismember none a b
smismember s
srem s a z a
srem s z
srem none a
srem s
sadd one x
srandmember one
srandmember one 1
srandmember one 5
srandmember one -3
srandmember one 0
srandmember one abc
srandmember one 1 2
srandmember one -9223372036854775808
srandmember none
srandmember none 1
srandmember none -1
? srandmember s 100
~ srandmember s 2
~ srandmember s -20
spop one
exists one
spop none
spop none 1
sadd one x
spop one 0
spop one -1
spop one abc
spop one 1 2
spop one 5
exists one
sadd many a b c
? spop many 3
~ spop s
~ spop s 1
sadd from a b
sadd to c
smove from to a
smove from to a
smove from to b
exists from
? smembers to
smove none to a
smove to to a
smove to to z
smove to fresh c
smembers fresh
smove to
sadd num 1 2 3
object encoding num
sadd num 4 5
object encoding num
~ sscan num 0
sscan num 0 match 2
sscan num 0 count 0
sscan num 0 bogus
sscan none 0
sscan num abc
sadd num x
object encoding num
srem num x
object encoding num
sadd words apple
object encoding words
sadd big 1
sadd big 9223372036854775807 -9223372036854775808 9223372036854775808
object encoding big
sadd lead 01
object encoding lead
"#;

const SEVERAL_SETS: &str = r#"
sadd a 1 2 3 4
sadd b 3 4 5
sadd c 4 6
? sinter a b
sinter a b c
? sinter a a
sinter a none
sinter none a
sinter none
sinter
? sunion a b c
? sunion a none
sunion none
? sunion a a
? sdiff a b
? sdiff a b c
? sdiff a none
sdiff none a
sdiff a a
sdiff a b a
? sdiff b a c
sinterstore d a b
? smembers d
sinterstore d a none
exists d
sunionstore d a b c
? smembers d
object encoding d
sdiffstore d a b
? smembers d
sdiffstore d a a
exists d
sunionstore a a b
? smembers a
set str x
sinterstore str b c
smembers str
sintercard 2 b c
sintercard 1 a
sintercard 1 a limit 2
sintercard 1 a limit 0
sintercard 1 a limit 100
sintercard 1 a limit -1
sintercard 1 a limit abc
sintercard 1 a limit
sintercard 1 a bogus 1
sintercard 2 a none
sintercard 0 a
sintercard -1 a
sintercard abc a
sintercard 5 a b
sintercard 1
sinterstore d
expire a 100
sunionstore a b c
ttl a
"#;

const SORTED: &str = r#"
zadd z 1 a 2 b 3 c
zadd z 1 a 2.5 b 4 d
zrange z 0 -1 withscores
zadd z nx 9 a 9 e
zadd z xx 10 a 10 f
zadd z gt 1 a 11 b
zadd z lt 1 a 12 b
zadd z ch 1 a 13 b 14 g
zadd z xx ch 2 a 13 b 5 h
zadd z gt ch 100 d 0 c
zadd z gt 7 new
zadd z incr 5 a
zadd z nx incr 5 a
zadd z xx incr 5 nothing
zadd z gt incr -5 a
zadd z lt incr -5 a
zadd z incr 1 a 2 b
zadd z nx xx 1 a
zadd z gt lt 1 a
zadd z nx gt 1 a
zadd z nx lt 1 a
zadd z
zadd z 1
zadd z 1 a 2
zadd z nx
zadd z nx 1
zadd z abc a
zadd z 1 a abc b
zadd z nan a
zadd z bogus 1 a
zadd z inf i -inf j
zadd z 1 x 2 x 1 x
zscore z x
zadd xxonly xx 1 a
exists xxonly
zadd xxonly xx incr 1 a
zadd z -0 zero
zscore z zero
zrange z 0 -1 withscores
zscore z a
zscore z none
zscore none a
zmscore z a none b
zmscore none a b
zmscore z
zcard z
zcard none
zincrby z 1.5 a
zincrby z abc a
zincrby z 1 brandnew
zincrby fresh 0.1 a
zincrby fresh 0.2 a
zscore fresh a
zincrby z inf i
zincrby z -inf i
zincrby z 1
zadd p 3.14159265358979 pi 1e100 big 1e-7 small 123456789.123 mid 100000000000000000 e17 12345678901234567 e16
zrange p 0 -1 withscores
zrank z a
zrank z none
zrank none a
zrevrank z a
zrevrank z none
zrank z
zrem z a none a
zrem z none
zrem none a
zrem z
zadd m 1 a 2 b 3 c 4 d 5 e 6 f
zpopmin m
zpopmax m
zpopmin m 2
zpopmax m 2
exists m
zpopmin m
zpopmax m 2
zadd m 1 a
zpopmin m 0
zpopmin m -1
zpopmin m abc
zpopmin m 1 2
zpopmin m 10
zadd q 1 a 2 b 3 c 4 d
zmpop 1 q min
zmpop 2 none q max count 2
zmpop 1 none min
zmpop 0 q min
zmpop abc q min
zmpop 3 q min
zmpop 1 q bogus
zmpop 1 q min count 0
zmpop 1 q min count abc
zmpop 1 q min bogus 1
zmpop 1 q
zmpop 1 q min count 100
exists q
zadd one 1.5 x
zrandmember one
zrandmember one 1
zrandmember one 5
zrandmember one -3
zrandmember one 0
zrandmember one 1 withscores
zrandmember one -2 withscores
zrandmember one abc
zrandmember one 1 bogus
zrandmember one -9223372036854775808
zrandmember one -9223372036854775807 withscores
zrandmember none
zrandmember none 1
zrandmember none 1 withscores
zscan one 0
zscan one 0 match y
zscan one 0 count abc
zscan none 0
zscan one abc
object encoding one
zadd one 1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
object encoding one
zremrangebyrank one 0 0
object encoding one
"#;

const RANGES: &str = r#"
zadd z 1 a 2 b 3 c 4 d 5 e
zrange z 0 -1
zrange z 1 2
zrange z -2 -1
zrange z 3 1
zrange z 0 100
zrange z 100 200
zrange z 0 -1 rev
zrange z 0 1 rev
zrange z 0 1 rev withscores
zrange z -2 -1 rev
zrange none 0 -1
zrange z a b
zrange z 0 -1 bogus
zrange z 0 -1 limit 0 1
zrange z 2 4 byscore
zrange z (2 4 byscore
zrange z 2 (4 byscore
zrange z (2 (3 byscore
zrange z -inf +inf byscore withscores
zrange z 4 2 byscore rev
zrange z (4 2 byscore rev
zrange z 2 4 byscore rev
zrange z -inf inf byscore limit 1 2
zrange z -inf inf byscore limit 1 -1
zrange z -inf inf byscore limit 10 1
zrange z -inf inf byscore limit -1 1
zrange z -inf inf byscore limit 0 0
zrange z inf -inf byscore rev limit 1 2
zrange z a b byscore
zrange z nan 1 byscore
zrange z -inf inf byscore limit a 1
zrange z -inf inf byscore limit 1
zrange z 0 -1 bylex withscores
zrange z ( 3 byscore
zrevrange z 0 -1
zrevrange z 0 1 withscores
zrevrange z 0 1 rev
zrevrange none 0 -1
zrevrange z a 1
zrangebyscore z 2 4
zrangebyscore z (2 4 withscores
zrangebyscore z 2 4 limit 1 1
zrangebyscore z 2 4 withscores limit 0 1
zrangebyscore z 2 4 rev
zrangebyscore z 2 4 byscore
zrangebyscore z x 4
zrangebyscore none 2 4
zrevrangebyscore z 4 2
zrevrangebyscore z (4 2 withscores limit 0 1
zrevrangebyscore z 2 4
zcount z 2 4
zcount z (2 (4
zcount z -inf +inf
zcount z 4 2
zcount z x 4
zcount none 1 2
zadd l 0 a 0 b 0 c 0 d 0 aa 0 "" 0 bb
zrangebylex l - +
zrangebylex l [b +
zrangebylex l (b +
zrangebylex l - [b
zrangebylex l - (b
zrangebylex l [a (c
zrangebylex l + -
zrangebylex l - + limit 1 2
zrangebylex l a b
zrangebylex l [a b
zrangebylex l - + withscores
zrangebylex none - +
zrevrangebylex l + -
zrevrangebylex l [c (a
zrevrangebylex l + - limit 1 2
zrevrangebylex l - +
zrange l - + bylex
zrange l [c [a bylex rev
zrange l [a [c bylex rev
zrange l - + bylex limit 2 2
zlexcount l - +
zlexcount l [a (c
zlexcount l + -
zlexcount l a c
zlexcount none - +
zrangestore d z 0 -1
zrange d 0 -1 withscores
zrangestore d z 2 4 byscore
zrange d 0 -1 withscores
zrangestore d z 4 2 byscore rev limit 0 1
zrange d 0 -1 withscores
zrangestore d l [a [b bylex
zrange d 0 -1
zrangestore d z 10 20
exists d
zrangestore d none 0 -1
zrangestore d z 0 -1 withscores
zrangestore d z a b
zrangestore z z 0 1
zrange z 0 -1
zadd r 1 a 2 b 3 c 4 d 5 e 6 f
zremrangebyrank r 0 1
zremrangebyrank r -1 -1
zremrangebyrank r 5 10
zremrangebyrank r a b
zremrangebyrank none 0 1
zrange r 0 -1
zremrangebyscore r (3 4
zremrangebyscore r 10 20
zremrangebyscore r x y
zremrangebyscore none 1 2
zrange r 0 -1
zremrangebyscore r -inf inf
exists r
zremrangebylex l [a (b
zremrangebylex l x y
zremrangebylex none - +
zrange l 0 -1
zremrangebylex l - +
exists l
zrange z 0
zrange z
zcount z 1
"#;

const SEVERAL_SORTED: &str = r#"
zadd a 1 x 2 y 3 z
zadd b 10 y 20 z 30 w
sadd s x z q
zunion 2 a b
zunion 2 a b withscores
zunion 2 a b weights 2 3 withscores
zunion 2 a b aggregate min withscores
zunion 2 a b aggregate max withscores
zunion 2 a b weights 1 0.5 aggregate max withscores
zunion 2 a s withscores
zunion 1 a withscores
zunion 1 none
zunion 2 a none withscores
zunion 2 a a withscores
zunion 0 a
zunion -1 a
zunion abc a
zunion 3 a b
zunion 2 a b weights 1
zunion 2 a b weights 1 abc
zunion 2 a b weights 1 2 3
zunion 2 a b aggregate bogus
zunion 2 a b bogus
zunion 2
zinter 2 a b
zinter 2 a b withscores
zinter 2 a b weights 2 3 withscores
zinter 2 a b aggregate min withscores
zinter 2 a s withscores
zinter 2 a none
zinter 0 a
zintercard 2 a b
zintercard 2 a b limit 1
zintercard 2 a b limit 0
zintercard 2 a b limit -1
zintercard 2 a b limit abc
zintercard 2 a b bogus
zintercard 0 a
zintercard abc a
zintercard 2 a b withscores
zdiff 2 a b
zdiff 2 a b withscores
zdiff 2 a s withscores
zdiff 2 a none withscores
zdiff 1 a
zdiff 2 none a
zdiff 2 a a
zdiff 2 a b weights 1 2
zdiff 0 a
zunionstore d 2 a b
zrange d 0 -1 withscores
zunionstore d 2 a b weights 1 -1 aggregate sum
zrange d 0 -1 withscores
zinterstore d 2 a b aggregate max
zrange d 0 -1 withscores
zdiffstore d 2 a b
zrange d 0 -1 withscores
zdiffstore d 2 a a
exists d
zinterstore d 2 a none
exists d
zunionstore d 2 none none
zunionstore d 2 a b withscores
zunionstore d 0 a
zunionstore d abc a
zunionstore a 2 a b
zrange a 0 -1 withscores
zadd i inf m
zadd j -inf m
zunion 2 i j withscores
zunion 1 i weights 0 withscores
zunionstore d 1 s
zrange d 0 -1 withscores
type d
object encoding d
"#;
