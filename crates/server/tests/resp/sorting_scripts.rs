//! Scripts of commands that sort elements, compare values, and close connections, and of
//! subcommands.

pub(crate) const ALL: &[(&str, &str)] = &[
    ("sort", SORT),
    ("sort by other keys", SORT_BY),
    ("common strings", LCS),
    ("client kill", KILL),
    ("subcommands", SUBCOMMANDS),
];

const SORT: &str = r#"
sort missing
sort missing store d
rpush l 3 1 10 2 2 -1.5 1e2
sort l
sort l desc
sort l asc
sort l alpha
sort l alpha desc
sort l desc asc
sort l limit 1 2
sort l limit 0 -1
sort l limit -5 3
sort l limit 3 100
sort l limit 100 3
sort l limit 7 1
sort l limit 2 0
sort l limit 2 -7
sort l limit a b
sort l limit 1
sort l limit
sort l bogus
sort l by
sort l get
sort l store
sort
sort_ro
sort_ro l
sort_ro l desc limit 0 3
sort_ro l store d
sort l store d
type d
lrange d 0 -1
sort l limit 50 1 store d
exists d
set s v
sort s
sort s bogus
sort l store s
type s
hset h f v
sort h
rpush words banana apple Cherry 10 9
sort words
sort words alpha
sort words alpha desc
rpush odd "" 5 " 3"
sort odd
rpush bad "3 "
sort bad
sadd ids 3 1 2 11
sort ids
sort ids desc
sort ids limit 1 2
sort ids by nosort store d
lrange d 0 -1
zadd z 5 1 4 2 3 3
sort z
sort z desc
sort z by nosort
sort z by nosort desc
sort z by nosort limit 1 1
sort z by nosort desc limit 0 2
rpush same inf -inf 0
sort same
rpush nan nan
sort nan
command getkeys sort l by w_* get o_* store d
command getkeys sort l by store limit 1 2 store d
command getkeys sort_ro l store d
multi
sort l
sort l limit 0 1 store d
exec
"#;

const SORT_BY: &str = r#"
rpush l 1 2 3 4
mset w_1 30 w_2 10 w_3 20 o_1 one o_2 two o_3 three
sort l by w_*
sort l by w_* desc
sort l by w_* limit 1 2
sort l by w_* get o_*
sort l by w_* get # get o_*
sort l get o_*
sort l get nothing
sort l get o_* store d
lrange d 0 -1
sort l by w_* alpha
sort l by nosort
sort l by nosort get #
sort l by nosort desc
sort l by nosort desc limit 0 2
sort l by nosort limit 1 2
hset h1 weight 9 name a
hset h2 weight 8 name b
hset h3 weight 7
sort l by h*->weight
sort l by h*->weight get h*->name
sort l by h*->weight get h*->name get # get h*->missing
sort l get h*->
sort l get w_*->weight
sort l by h*
sort l get h*
set w_1 word
sort l by w_*
sort l by w_* alpha
sort l by w_* alpha desc
rpush twice 2 1 2
sort twice by w_* get #
set x*y 5
sort l get x\*y
sort l get o_*_*
"#;

const LCS: &str = r#"
mset a ohmytext b mynewtext
lcs a b
lcs a b len
lcs a b idx
lcs a b idx minmatchlen 4
lcs a b idx minmatchlen 4 withmatchlen
lcs a b idx withmatchlen
lcs a b withmatchlen
lcs a b minmatchlen 4
lcs a b idx minmatchlen -4
lcs a b idx minmatchlen abc
lcs a b idx minmatchlen
lcs a b idx len
lcs a b bogus
lcs a
lcs a missing
lcs missing a len
lcs missing none idx
lcs a a idx withmatchlen
mset c axbycz d abc e cba
lcs c d idx withmatchlen
lcs d c idx
lcs d e
lcs d e idx
lcs e d idx
mset f aaaaaaaa g aaa
lcs f g idx withmatchlen
lcs g f idx
rpush l x
lcs a l
lcs l bogus bogus
lcs a l bogus
setrange big1 1500 x
setrange big2 1500 x
lcs big1 big2 len
setrange big1 1000000 x
setrange big2 1000000 x
lcs big1 big2
"#;

const KILL: &str = r#"
client kill
client kill 127.0.0.1:1
client kill nothing
client kill id
client kill id 0
client kill id -1
client kill id abc
client kill id 999999999
client kill id 999999999 skipme no
client kill id 999999999 skipme maybe
client kill type bogus
client kill type master
client kill type pubsub
client kill type slave
client kill type replica
client kill user nobody
client kill user default id 999999999
client kill addr 127.0.0.1:1
client kill laddr 127.0.0.1:1
client kill addr 127.0.0.1:1 bogus
client kill bogus 1
client kill addr 127.0.0.1:1 laddr
client kill addr 127.0.0.1:1 laddr 127.0.0.1:2
command list filterby pattern GETE*
? command list filterby pattern *xpiretime
"#;

const SUBCOMMANDS: &str = r#"
multi
object encoding
object encoding k
exec
multi
client bogus
exec
multi
memory usage
set k v
exec
exists k
multi
object help extra
discard
multi
config get
exec
config rewrite extra
config resetstat extra
config help extra
config set a
client id extra
client getname extra
client help extra
client list extra
client kill
acl whoami extra
acl bogus
slowlog len extra
slowlog get 1 2
slowlog get abc
slowlog get -2
slowlog bogus
memory bogus
memory usage k samples
memory usage k samples a
memory usage k bogus 1
object freq
object freq missing
object bogus k
command count extra
command list bogus
command getkeys get
command getkeys
command help extra
"#;
