//! The accounts and regions of a fleet.

use aws_credential_types::Credentials;
use jiff::Timestamp;
use redrive_aws::clients::failure_of_call;
use serde::Deserialize;

use super::stack_facts::Seen;
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment, read_file};

/// The name of the tool in the logs of an account whose role it assumes.
const SESSION: &str = "redrivectl-fleet";

/// One region of one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FleetPlace {
    pub(super) account: FleetAccount,
    /// `None` for the region of the profile, or the user's own.
    pub(super) region: Option<String>,
    /// The names of stacks. Empty for every stack of the template.
    pub(super) stacks: Vec<String>,
}

/// How an account is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FleetAccount {
    /// By the credentials of the user.
    Own,
    Profile(String),
    Role(String),
}

/// The file of accounts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FleetFile {
    accounts: Vec<FileAccount>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAccount {
    #[serde(default)]
    profile: Option<String>,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    regions: Vec<String>,
    #[serde(default)]
    stacks: Vec<String>,
}

/// Returns the places of a command line. What an account of the file leaves out comes from the options.
pub(super) fn places(
    args: &args::FleetArgs,
    console: &mut ToolEnvironment,
) -> Result<Vec<FleetPlace>, CommandFailure> {
    let mut places = Vec::new();
    let mut add = |account: &FleetAccount, regions: &[String], stacks: &[String]| {
        let regions: Vec<_> =
            if regions.is_empty() { vec![None] } else { regions.iter().cloned().map(Some).collect() };
        for region in regions {
            let place = FleetPlace { account: account.clone(), region, stacks: stacks.to_vec() };
            if !places.contains(&place) {
                places.push(place);
            }
        }
    };
    let profiles = args.profile.iter().cloned().map(FleetAccount::Profile);
    let roles = args.role.iter().cloned().map(FleetAccount::Role);
    let mut accounts: Vec<_> = profiles.chain(roles).collect();
    if accounts.is_empty() && args.file.is_none() {
        accounts.push(FleetAccount::Own);
    }
    for account in &accounts {
        add(account, &args.region, &args.stack);
    }
    if let Some(file) = &args.file {
        let bad = |problem: String| CommandFailure::Input(vec![format!("{}: {problem}", file.display())]);
        let of_file: FleetFile = serde_json::from_str(&read_file(file, console)?)
            .map_err(|error| bad(format!("is not a file of accounts: {error}")))?;
        for (number, one) in (1..).zip(of_file.accounts) {
            let account = match (one.profile, one.role) {
                (Some(profile), None) => FleetAccount::Profile(profile),
                (None, Some(role)) => FleetAccount::Role(role),
                (None, None) => FleetAccount::Own,
                (Some(_), Some(_)) => {
                    return Err(bad(format!("account {number} has a profile and a role: give one of them")));
                }
            };
            let or = |given: Vec<String>, instead: &[String]| {
                if given.is_empty() { instead.to_vec() } else { given }
            };
            add(&account, &or(one.regions, &args.region), &or(one.stacks, &args.stack));
        }
    }
    if places.is_empty() {
        return Err(CommandFailure::Input(vec!["no account is named".to_owned()]));
    }
    Ok(places)
}

impl FleetPlace {
    /// Returns the account as it was named.
    pub(super) fn account(&self) -> &str {
        match &self.account {
            FleetAccount::Own => "(own)",
            FleetAccount::Profile(name) => name,
            // The account's number and the role's name tell roles apart.
            FleetAccount::Role(arn) => arn.split_once("iam::").map_or(arn, |(_, rest)| rest),
        }
    }

    /// Returns the whole ARN of its role, or the account as it was named.
    pub(super) fn whole_account(&self) -> &str {
        if let FleetAccount::Role(arn) = &self.account { arn } else { self.account() }
    }

    /// Connects to the account.
    ///
    /// # Errors
    ///
    /// What is to be said in the place of its stacks.
    pub(super) async fn connect(
        &self,
        args: &args::FleetArgs,
        console: &ToolEnvironment,
    ) -> Result<AwsAccess, Seen<()>> {
        let profile = match &self.account {
            FleetAccount::Profile(name) => Some(name.clone()),
            FleetAccount::Own | FleetAccount::Role(_) => None,
        };
        let connection = args::ConnectionArgs {
            stack: None,
            endpoint_url: args.endpoint_url.clone(),
            profile,
            region: self.region.clone(),
        };
        let access = AwsAccess::connect(&connection, console).await;
        let access = access.map_err(|failed| Seen::Failed(first_line(&failed.to_string())))?;
        let access = access.in_region(self.region.as_deref());
        match &self.account {
            FleetAccount::Own | FleetAccount::Profile(_) => Ok(access),
            FleetAccount::Role(arn) => {
                let credentials = assumed(&access, arn).await?;
                Ok(access.with_credentials(credentials))
            }
        }
    }
}

/// Assumes a role.
async fn assumed(access: &AwsAccess, arn: &str) -> Result<Credentials, Seen<()>> {
    let call = access.sts().assume_role().role_arn(arn).role_session_name(SESSION);
    let answer = call.send().await;
    let answer = answer.map_err(|error| Seen::of("sts:AssumeRole", &failure_of_call(&error)))?;
    let none = || Seen::Failed("sts:AssumeRole gave no credentials".to_owned());
    let given = answer.credentials().ok_or_else(none)?;
    let ends = Timestamp::from_second(given.expiration().secs()).map(std::time::SystemTime::from).ok();
    let (id, secret) = (given.access_key_id(), given.secret_access_key());
    Ok(Credentials::new(id, secret, Some(given.session_token().to_owned()), ends, "fleet"))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
