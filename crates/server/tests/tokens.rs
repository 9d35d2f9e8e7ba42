//! Items take room for a token and the time of the last access when somebody asks: until then, no
//! client sees that they have none.

mod support;

use base::ByteSize;
use millpond_server::config::Auto;
use support::{Client, address, config};

fn gets(client: &mut Client, key: &str) -> u64 {
    let head = client.ask(format!("gets {key}\r\n"));
    let token = head.rsplit(' ').next().and_then(|word| word.parse().ok());
    client.line();
    client.line();
    token.unwrap_or_else(|| panic!("{head}"))
}

#[test]
fn a_token_is_given_when_it_is_asked_for_and_stays() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    for (exptime, flags) in [(0, 0), (100, 0), (0, 3), (100, 3)] {
        assert_eq!(client.ask(format!("set k {flags} {exptime} 1\r\na\r\n")), "STORED");
        assert_eq!(client.ask("cas k 0 0 1 1\r\nb\r\n"), "EXISTS", "nobody was told a token");
        let token = gets(&mut client, "k");
        assert_eq!(gets(&mut client, "k"), token);
        assert_eq!(client.ask("touch k 200\r\n"), "TOUCHED");
        assert_eq!(gets(&mut client, "k"), token, "touching leaves it");
        assert_eq!(client.ask("mg k c f t\r\n"), format!("HD c{token} f{flags} t200"));
        assert_eq!(client.ask(format!("cas k 0 0 1 {token}\r\nb\r\n")), "STORED");
        assert_eq!(client.ask(format!("cas k 0 0 1 {token}\r\nc\r\n")), "EXISTS");
        assert_eq!(client.ask("set k 0 0 1\r\nd\r\n"), "STORED");
        assert_eq!(client.ask(format!("md k C{token}\r\n")), "EX");
        // One that is given later is for what is there by then.
        let later = gets(&mut client, "k");
        assert!(later > token);
        assert_eq!(client.ask(format!("md k C{later}\r\n")), "HD");
    }
    // A stale replacement compares with what has no token yet, too: it is younger than any token.
    assert_eq!(client.ask("set k 0 0 1\r\na\r\n"), "STORED");
    let old = gets(&mut client, "k");
    assert_eq!(client.ask("set k 0 0 1\r\nb\r\n"), "STORED");
    assert_eq!(client.ask(format!("ms k 1 I C{old}\r\nc\r\n")), "HD");
    assert_eq!(client.ask("mg k v\r\n"), "VA 1 X W");
}

#[test]
fn the_first_question_for_the_last_access_is_answered_as_well_as_is_known() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set k 0 0 1\r\na\r\n"), "STORED");
    assert!(["HD h0 l0", "HD h0 l1"].contains(&client.ask("mg k h l\r\n").as_str()));
    assert!(["HD h1 l0", "HD h1 l1"].contains(&client.ask("mg k h l\r\n").as_str()));
    assert!(client.ask("mg k h l t\r\n").ends_with(" t-1"));
}

/// The same memory holds a quarter more small items than memcached 1.6.18, which needs 192 bytes
/// for one of 116.
#[test]
fn small_items_without_tokens_take_few_bytes() {
    let mut config = config();
    config.memory = Auto::Set(ByteSize::mib(64));
    let server = support::start_in_memory(config).expect("a server");
    let mut client = Client::connect(address(&server));
    let value = "v".repeat(100);
    for batch in 0..60 {
        let sets: String = (0..10_000)
            .map(|i| format!("set {:016} 0 0 100 noreply\r\n{value}\r\n", batch * 10_000 + i))
            .collect();
        client.send(sets);
        assert_eq!(client.ask("mn\r\n"), "MN");
    }
    client.send("stats\r\n");
    let mut items = 0;
    loop {
        let line = client.line();
        if let Some(count) = line.strip_prefix("STAT curr_items ") {
            items = count.parse().expect("a number");
        }
        if line == "END" {
            break;
        }
    }
    let bytes = (64 << 20) / items;
    println!("{items} items, {bytes} bytes each");
    assert!(bytes < 170, "{items} items, {bytes} bytes each");
}
