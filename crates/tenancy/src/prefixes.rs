//! The tenants of keys by their prefixes.

use std::sync::Arc;

use crate::tenant::Tenant;

/// The prefixes of all tenants, in their order.
#[derive(Default)]
pub(crate) struct Prefixes(Vec<(Box<[u8]>, Arc<Tenant>)>);

impl Prefixes {
    pub(crate) fn new(tenants: &[Arc<Tenant>]) -> Self {
        let of = |tenant: &Arc<Tenant>| {
            let prefixes = tenant.settings().prefixes.into_iter();
            let tenant = Arc::clone(tenant);
            prefixes.map(move |prefix| (prefix.into_bytes().into_boxed_slice(), Arc::clone(&tenant)))
        };
        let mut all: Vec<_> = tenants.iter().flat_map(of).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self(all)
    }

    /// The tenant with the longest prefix of `key` among those that `is_allowed`.
    pub(crate) fn tenant(&self, key: &[u8], is_allowed: impl Fn(&Tenant) -> bool) -> Option<&Arc<Tenant>> {
        let mut within = key;
        let mut behind = self.0.len();
        // A prefix of the key stands at or before it, and what stands between begins with as much
        // of the key as it does.
        loop {
            behind = self.0.get(..behind)?.partition_point(|(prefix, _)| **prefix <= *within);
            let (prefix, tenant) = self.0.get(behind.checked_sub(1)?)?;
            let common = prefix.iter().zip(within).take_while(|(a, b)| a == b).count();
            if common == prefix.len() {
                if is_allowed(tenant) {
                    return Some(tenant);
                }
                behind -= 1;
            }
            within = within.get(..common)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use config::TenantSettings;
    use proptest::prelude::*;

    use super::*;
    use crate::key_space::Pool;

    fn prefixes(of: &[Vec<String>]) -> Prefixes {
        let pool = Pool::alone();
        let tenant = |(number, prefixes): (usize, &Vec<String>)| {
            let settings = TenantSettings {
                prefixes: prefixes.clone(),
                ..TenantSettings::unlimited(&number.to_string())
            };
            Arc::new(Tenant::new(&settings, Arc::clone(&pool)))
        };
        Prefixes::new(&of.iter().enumerate().map(tenant).collect::<Vec<_>>())
    }

    #[test]
    fn the_longest_prefix_decides() {
        let of = [vec!["shop:".to_owned(), "s".to_owned()], vec!["shop:eu:".to_owned()]];
        let table = prefixes(&of);
        let whose = |key: &str| table.tenant(key.as_bytes(), |_| true).map(|tenant| tenant.name.clone());
        for (key, tenant) in [
            ("shop:1", Some("0")),
            ("shop:eu:1", Some("1")),
            ("shop:eu:", Some("1")),
            ("shop:eu", Some("0")),
            ("shop:fr:1", Some("0")),
            ("sho", Some("0")),
            ("t", None),
            ("", None),
        ] {
            assert_eq!(whose(key).as_deref(), tenant, "{key}");
        }
        let allowed = table.tenant(b"shop:eu:1", |tenant| tenant.name != "1");
        assert_eq!(allowed.map(|tenant| &*tenant.name), Some("0"));
        assert!(table.tenant(b"shop:eu:1", |_| false).is_none());
    }

    proptest! {
        #[test]
        fn it_is_what_a_look_at_all_prefixes_finds(
            of in prop::collection::vec(prop::collection::vec("[ab]{1,4}", 0..4), 1..5),
            keys in prop::collection::vec("[abc]{0,6}", 1..20),
            forbidden in 0..5_usize,
        ) {
            let mut seen = std::collections::HashSet::new();
            let of: Vec<Vec<String>> = of.into_iter()
                .map(|prefixes| prefixes.into_iter().filter(|prefix| seen.insert(prefix.clone())).collect())
                .collect();
            let table = prefixes(&of);
            let forbidden = forbidden.to_string();
            for key in keys {
                let found = table.tenant(key.as_bytes(), |tenant| tenant.name != forbidden);
                let all = of.iter().enumerate().filter(|(number, _)| number.to_string() != forbidden);
                let longest = all
                    .flat_map(|(number, prefixes)| prefixes.iter().map(move |prefix| (prefix.len(), number, prefix)))
                    .filter(|(_, _, prefix)| key.starts_with(prefix.as_str()))
                    .max();
                let expected = longest.map(|(_, number, _)| number.to_string());
                prop_assert_eq!(found.map(|tenant| tenant.name.clone()), expected, "{}", key);
            }
        }
    }
}
