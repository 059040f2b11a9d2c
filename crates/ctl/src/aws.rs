//! The AWS clients of a command line.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_config::meta::region::ProvideRegion;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_s3::config::Region;
use redrive_aws::clients::{self, AwsClients, https};
use redrive_core::failure::{Failure, FailureClass};

use crate::args;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::tables::command_line;

/// The number of attempts of a call: an operator can wait longer than a function.
const ATTEMPTS: u32 = 5;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The access to the account: the SDK's configuration, from which clients are made.
#[derive(Debug, Clone)]
pub(super) struct AwsAccess {
    config: SdkConfig,
    /// True if bucket names are part of the path: a custom endpoint has no host name for each bucket.
    path_style: bool,
}

impl AwsAccess {
    /// Connects with the environment's configuration. Without one it reads environment, profile and options, in
    /// the order of the AWS CLI.
    ///
    /// # Errors
    ///
    /// There is no region, or there are no credentials. A call would fail with a less clear error.
    pub(super) async fn connect(
        args: &args::ConnectionArgs,
        console: &ToolEnvironment,
    ) -> Result<Self, CommandFailure> {
        let config = match &console.config {
            Some(config) => config.clone(),
            None => config(args, console).await?,
        };
        let path_style =
            config.endpoint_url().is_some() || (console.variable)("AWS_ENDPOINT_URL_S3").is_some();
        Ok(Self { config, path_style })
    }

    /// Returns the same access to another region, if one is given.
    pub(super) fn in_region(self, region: Option<&str>) -> Self {
        let Some(region) = region.map(str::to_owned) else { return self };
        Self { config: self.config.into_builder().region(Region::new(region)).build(), ..self }
    }

    /// Returns the same access with other credentials.
    pub(super) fn with_credentials(self, credentials: Credentials) -> Self {
        let provider = SharedCredentialsProvider::new(credentials);
        Self { config: self.config.into_builder().credentials_provider(provider).build(), ..self }
    }

    /// Returns the clients that the function uses too.
    pub(super) fn clients(&self) -> AwsClients {
        AwsClients::from_config(&self.config, self.path_style)
    }

    /// Returns the client that asks who the caller is.
    pub(super) fn sts(&self) -> aws_sdk_sts::Client {
        aws_sdk_sts::Client::new(&self.config)
    }

    /// Returns the client of Step Functions.
    pub(super) fn states(&self) -> aws_sdk_sfn::Client {
        aws_sdk_sfn::Client::new(&self.config)
    }

    /// Returns the client that asks for permissions of roles.
    pub(super) fn iam(&self) -> aws_sdk_iam::Client {
        aws_sdk_iam::Client::new(&self.config)
    }

    /// Returns the client that reads keys.
    pub(super) fn kms(&self) -> aws_sdk_kms::Client {
        aws_sdk_kms::Client::new(&self.config)
    }

    /// Returns the client that reads logs.
    pub(super) fn logs(&self) -> aws_sdk_cloudwatchlogs::Client {
        aws_sdk_cloudwatchlogs::Client::new(&self.config)
    }

    /// Returns the client that reads stacks.
    pub(super) fn formation(&self) -> aws_sdk_cloudformation::Client {
        aws_sdk_cloudformation::Client::new(&self.config)
    }

    /// Returns the clients that read the pages of the console.
    pub(super) fn console(&self) -> redrive_console::ConsoleClients {
        redrive_console::ConsoleClients::from_config(&self.config, self.path_style)
    }

    /// Returns the configuration, so that further commands of the same process need not ask for credentials again.
    pub(super) fn config(&self) -> SdkConfig {
        self.config.clone()
    }

    /// Returns the region, or an empty text if there is none.
    pub(super) fn region(&self) -> String {
        self.config.region().map(ToString::to_string).unwrap_or_default()
    }
}

/// Asks AWS for the ARN of the caller.
pub(super) async fn caller(sts: &aws_sdk_sts::Client) -> Result<String, Failure> {
    let answer = sts.get_caller_identity().send().await;
    let answer = answer.map_err(|error| clients::failure_of_call(&error))?;
    let none = || Failure::ours(FailureClass::Transient, "no ARN in the answer");
    answer.arn().map(str::to_owned).ok_or_else(none)
}

/// Returns the SDK's configuration from environment, profile and options.
async fn config(args: &args::ConnectionArgs, console: &ToolEnvironment) -> Result<SdkConfig, CommandFailure> {
    let http = https(console.clock.clone());
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let providers = ProviderConfig::without_region().with_http_client(http.clone());
    let region = region(args, console, &providers).await?;
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http.clone())
        .region(region.clone())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts);
    if let Some(profile) = &args.profile {
        // The SDK itself prefers credentials of the environment, which may belong to another account than the
        // named profile.
        let with = providers.with_region(Some(region));
        let credentials = ProfileFileCredentialsProvider::builder().configure(&with).profile_name(profile);
        loader = loader.profile_name(profile).credentials_provider(credentials.build());
    }
    if let Some(url) = &args.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    let mut config = loader.load().await;
    // Only from here on are silent servers named. The providers of credentials ask servers that most machines
    // lack, such as the metadata server of EC2.
    config = config.into_builder().http_client(console.silent.among(http)).build();
    if let Some(provider) = config.credentials_provider() {
        let first = provider.provide_credentials().await.map_err(|error| {
            let of =
                profile(args, console).map(|profile| format!(" of profile {profile}")).unwrap_or_default();
            let option: Vec<_> = args.profile.iter().flat_map(|profile| ["--profile", profile]).collect();
            let [sign_in, log_in] = [["aws", "sso", "login"].as_slice(), &["aws", "login"]]
                .map(|command| command_line([command, &option].concat()));
            CommandFailure::Work(format!(
                "no credentials{of}: {}\nif your session has expired, sign in again: {sign_in}, or {log_in}",
                causes(&error)
            ))
        })?;
        let asked = CachedCredentials { first: Mutex::new(Some(first)), provider };
        config = config.into_builder().credentials_provider(SharedCredentialsProvider::new(asked)).build();
    }
    Ok(config)
}

/// A provider that remembers its first answer. Asking again would run its process, or ask the user for a
/// second factor, once more.
#[derive(Debug)]
struct CachedCredentials {
    first: Mutex<Option<Credentials>>,
    provider: SharedCredentialsProvider,
}

impl ProvideCredentials for CachedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        match self.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(first) => future::ProvideCredentials::ready(Ok(first)),
            None => self.provider.provide_credentials(),
        }
    }
}

/// Returns the region of the command line, the environment or the profile, in this order.
async fn region(
    args: &args::ConnectionArgs,
    console: &ToolEnvironment,
    providers: &ProviderConfig,
) -> Result<Region, CommandFailure> {
    let mut of_profile = ProfileFileRegionProvider::builder().configure(providers);
    if let Some(profile) = &args.profile {
        of_profile = of_profile.profile_name(profile);
    }
    let region = match args.region.clone().map(Region::new).or_else(|| clients::region(console.variable)) {
        None => of_profile.build().region().await,
        named => named,
    };
    let filled = region.filter(|region| !region.as_ref().trim().is_empty());
    filled.ok_or_else(|| {
        let by = "give --region, set AWS_REGION, or use a profile with a region";
        CommandFailure::Work(match profile(args, console) {
            Some(name) => format!(
                "the profile {name} has no region, or your AWS configuration has no such profile: {by}"
            ),
            None => format!("no region is set: {by}"),
        })
    })
}

/// Returns the name of the profile that the command line or the environment names.
fn profile(args: &args::ConnectionArgs, console: &ToolEnvironment) -> Option<String> {
    let of_variable = || (console.variable)("AWS_PROFILE").filter(|name| !name.is_empty());
    args.profile.clone().or_else(of_variable)
}

/// Returns the text of an error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
