use control::v1::Instance;

use super::*;

fn member(node: &str, is_leased: bool) -> MemberStatus {
    MemberStatus {
        instance: Instance { name: "a".to_owned(), node: node.to_owned(), ..Instance::default() },
        address: String::new(),
        is_leased,
        limit_bytes: 0,
        used_bytes: 0,
        held_bytes: 0,
        target_bytes: None,
    }
}

#[test]
fn an_instance_that_is_silent_on_two_nodes_is_not_forgotten_without_the_node() {
    let of = |members: &[MemberStatus], name: &str, node| {
        node_of(members, name, node).map_err(|(status, _)| status.as_u16())
    };
    let both = [member("here", false), member("rack-7", false)];
    assert_eq!(of(&both, "a", None), Err(400));
    assert_eq!(of(&both, "a", Some("rack-7")).as_deref(), Ok("rack-7"));
    assert_eq!(of(&both, "a", Some("rack-8")), Err(404));
    assert_eq!(of(&both, "b", None), Err(404));
    let one = [member("here", true), member("rack-7", false)];
    assert_eq!(of(&one, "a", None), Err(400), "the one that answers may have just ended");
}
