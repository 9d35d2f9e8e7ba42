//! The setup of a run: the policy, and the parts that tenants share.

use allocate::Policy;

/// The policy of a run, and what tenants share whatever the policy says.
pub struct Setup {
    /// The name in reports.
    pub name: String,
    /// The policy; `None`: everything stays in equal shares.
    pub policy: Option<Box<dyn Policy>>,
    /// True if all tenants share one cache, whatever the policy says.
    pub shared_cache: bool,
    /// True if all tenants share each resource, whatever the policy says.
    pub shared_resources: bool,
}

impl Setup {
    /// Equal shares that stay.
    pub fn equal() -> Self {
        Self { name: "equal".into(), policy: None, shared_cache: false, shared_resources: false }
    }

    /// A policy that decides about everything.
    pub fn of(policy: Box<dyn Policy>) -> Self {
        Self { name: policy.name().into(), policy: Some(policy), ..Self::equal() }
    }

    /// All tenants share one cache and all resources.
    pub fn non_partitioned() -> Self {
        Self { name: "non-partitioned".into(), shared_cache: true, shared_resources: true, ..Self::equal() }
    }

    /// All tenants share one cache, and a policy decides about the other resources.
    pub fn shared_cache(policy: Box<dyn Policy>) -> Self {
        let name = format!("shared-cache+{}", policy.name());
        Self { name, policy: Some(policy), shared_cache: true, shared_resources: false }
    }
}
