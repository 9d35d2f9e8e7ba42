//! Changes of a configuration while serving: single settings laid over it, tenants made or removed.
//! Each change is checked as a whole, and its result is another configuration.

use super::error::hint;
use super::load::{self, Override};
use super::{Config, TenantSettings, check};

/// A configuration with single settings changed, as far as they can be.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The configuration with the changes that can be made.
    pub config: Config,
    /// All that is wrong with the change; if there is anything, nothing of it is made.
    pub problems: Vec<String>,
}

impl From<Config> for Edited {
    fn from(config: Config) -> Self {
        Self { config, problems: Vec::new() }
    }
}

/// `config` with `settings` laid over it, the later over the earlier; checked.
pub fn lay_over(config: &Config, settings: &[Override]) -> Edited {
    let mut edited = Edited::from(config.clone());
    for setting in settings {
        match load::apply(&edited.config, setting) {
            Ok(changed) => edited.config = changed,
            Err(error) => edited.problems.push(error.to_string()),
        }
    }
    edited.problems.extend(check::problems(&edited.config));
    edited
}

impl Config {
    /// The configuration with these settings of a tenant, which is made if there is none of that
    /// name; checked.
    pub fn with_tenant(&self, name: &str, settings: &[Override]) -> Edited {
        let mut config = self.clone();
        if !config.tenants.iter().any(|tenant| tenant.name == name) {
            config.tenants.push(TenantSettings::unlimited(name));
        }
        let mut edited = lay_over(&config, settings);
        if !edited.config.tenants.iter().any(|tenant| tenant.name == name) {
            let problem =
                format!("tenant.{name}.name: a tenant keeps its name; make another and remove this one");
            edited.problems.push(problem);
        }
        edited
    }

    /// The configuration without that tenant.
    pub fn without_tenant(&self, name: &str) -> Self {
        let mut config = self.clone();
        config.tenants.retain(|tenant| tenant.name != name);
        config
    }

    /// Why a tenant of this name cannot be shown or removed.
    pub fn no_such_tenant(&self, name: &str) -> String {
        if self.all_tenants().iter().any(|tenant| tenant.name == name) {
            return format!(
                "tenant `{name}` has no [[tenant]]: it is there for as long as a listener names its pool"
            );
        }
        let hint = hint(name, self.tenants.iter().map(|tenant| tenant.name.as_str()), "tenants");
        format!("there is no tenant `{name}`; {hint}")
    }
}
