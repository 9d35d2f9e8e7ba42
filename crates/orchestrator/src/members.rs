//! All instances, by node: what is decided concerns those of one node.

use std::collections::{BTreeMap, HashMap};

use crate::exchange::Key;
use crate::member::Member;

/// The instances of a node.
pub(crate) type OnNode = BTreeMap<Key, Member>;

/// All instances. The node of one changes only as it is removed and inserted again.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// A node without instances is not there.
    nodes: BTreeMap<String, OnNode>,
    /// The node of each instance.
    places: HashMap<Key, String>,
}

impl Members {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Member> {
        self.nodes.get(self.places.get(key)?)?.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut Member> {
        self.nodes.get_mut(self.places.get(key)?)?.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: Key, member: Member) {
        self.remove(&key);
        let node = member.instance.node.clone();
        self.places.insert(key.clone(), node.clone());
        self.nodes.entry(node).or_default().insert(key, member);
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Member> {
        let node = self.places.remove(key)?;
        let here = self.nodes.get_mut(&node)?;
        let member = here.remove(key);
        if here.is_empty() {
            self.nodes.remove(&node);
        }
        member
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Member)> {
        self.nodes.values().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Member)> {
        self.nodes.values_mut().flatten()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Member> {
        self.nodes.values().flat_map(BTreeMap::values)
    }

    /// The nodes with their instances.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, &OnNode)> {
        self.nodes.iter().map(|(node, here)| (node.as_str(), here))
    }

    /// The instances of a node.
    pub(crate) fn on(&self, node: &str) -> impl Iterator<Item = (&Key, &Member)> {
        self.nodes.get(node).into_iter().flatten()
    }

    /// The instances of a node, if there are any.
    pub(crate) fn on_mut(&mut self, node: &str) -> Option<&mut OnNode> {
        self.nodes.get_mut(node)
    }
}

impl FromIterator<(Key, Member)> for Members {
    fn from_iter<I: IntoIterator<Item = (Key, Member)>>(members: I) -> Self {
        let mut all = Self::default();
        members.into_iter().for_each(|(key, member)| all.insert(key, member));
        all
    }
}
