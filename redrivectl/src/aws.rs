//! The AWS clients that a command line asks for.

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

use crate::args;
use crate::console::{Console, Failed};
use sns_redrive::clients::{self, Clients, https};
use sns_redrive::failure::{Failure, FailureClass};

/// An operator waits longer than a function may.
const ATTEMPTS: u32 = 5;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The account as a command line reaches it: the SDK's configuration, from which clients are made.
#[derive(Debug, Clone)]
pub(super) struct Aws {
    config: SdkConfig,
    /// Whether buckets are a part of the path: an endpoint of one's own has no name for every bucket.
    path_style: bool,
}

impl Aws {
    /// Takes the console's configuration, else that of environment, profile and options, in the AWS CLI's order.
    ///
    /// # Errors
    ///
    /// Where there is no region, or there are no credentials: a call would only say that it went nowhere.
    pub(super) async fn connect(args: &args::Connection, console: &Console) -> Result<Self, Failed> {
        let config = match &console.config {
            Some(config) => config.clone(),
            None => config(args, console).await?,
        };
        let path_style =
            config.endpoint_url().is_some() || (console.variable)("AWS_ENDPOINT_URL_S3").is_some();
        Ok(Self { config, path_style })
    }

    /// The clients that the function has, too.
    pub(super) fn clients(&self) -> Clients {
        Clients::from_config(&self.config, self.path_style)
    }

    /// The client that says who the caller is.
    pub(super) fn sts(&self) -> aws_sdk_sts::Client {
        aws_sdk_sts::Client::new(&self.config)
    }

    /// The client of Step Functions.
    pub(super) fn states(&self) -> aws_sdk_sfn::Client {
        aws_sdk_sfn::Client::new(&self.config)
    }

    /// The client that knows what roles may do.
    pub(super) fn iam(&self) -> aws_sdk_iam::Client {
        aws_sdk_iam::Client::new(&self.config)
    }

    /// The client that reads logs.
    pub(super) fn logs(&self) -> aws_sdk_cloudwatchlogs::Client {
        aws_sdk_cloudwatchlogs::Client::new(&self.config)
    }

    /// The client that knows the stacks.
    pub(super) fn formation(&self) -> aws_sdk_cloudformation::Client {
        aws_sdk_cloudformation::Client::new(&self.config)
    }

    /// The clients that pages of the console are read with.
    pub(super) fn console(&self) -> redrive_console::Clients {
        redrive_console::Clients::from_config(&self.config, self.path_style)
    }

    /// The configuration, for further commands of the same process: they ask for no credentials of their own.
    pub(super) fn config(&self) -> SdkConfig {
        self.config.clone()
    }

    /// The region; empty where nobody named one.
    pub(super) fn region(&self) -> String {
        self.config.region().map(ToString::to_string).unwrap_or_default()
    }
}

/// Asks AWS who the caller is: its ARN, or why nobody knows.
pub(super) async fn caller(sts: &aws_sdk_sts::Client) -> Result<String, Failure> {
    let answer = sts.get_caller_identity().send().await;
    let answer = answer.map_err(|error| clients::failure_of_call(&error))?;
    let none = || Failure::ours(FailureClass::Transient, "no ARN in the answer");
    answer.arn().map(str::to_owned).ok_or_else(none)
}

/// The SDK's configuration by environment, profile and options.
async fn config(args: &args::Connection, console: &Console) -> Result<SdkConfig, Failed> {
    let http = https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let providers = ProviderConfig::without_region().with_http_client(http.clone());
    let region = region(args, console, &providers).await?;
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .region(region.clone())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts);
    if let Some(profile) = &args.profile {
        // The SDK alone would prefer credentials of the environment, and work on another account than the
        // one that was named.
        let with = providers.with_region(Some(region));
        let credentials = ProfileFileCredentialsProvider::builder().configure(&with).profile_name(profile);
        loader = loader.profile_name(profile).credentials_provider(credentials.build());
    }
    if let Some(url) = &args.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    let mut config = loader.load().await;
    if let Some(provider) = config.credentials_provider() {
        let first = provider.provide_credentials().await.map_err(|error| {
            let of = args.profile.as_ref().map(|profile| format!(" of profile {profile}")).unwrap_or_default();
            let option = args.profile.as_ref().map(|profile| format!(" --profile {profile}")).unwrap_or_default();
            Failed::Work(format!(
                "no credentials{of}: {}\nif the sign-in has expired: aws sso login{option}, or aws login{option}",
                causes(&error)
            ))
        })?;
        let asked = Asked { first: Mutex::new(Some(first)), provider };
        config = config.into_builder().credentials_provider(SharedCredentialsProvider::new(asked)).build();
    }
    Ok(config)
}

/// A provider with what it has answered already. Asked anew, it would run a process or ask for a second factor again.
#[derive(Debug)]
struct Asked {
    first: Mutex<Option<Credentials>>,
    provider: SharedCredentialsProvider,
}

impl ProvideCredentials for Asked {
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

/// The region of the command line, the environment or the profile, in this order.
async fn region(
    args: &args::Connection,
    console: &Console,
    providers: &ProviderConfig,
) -> Result<Region, Failed> {
    let mut of_profile = ProfileFileRegionProvider::builder().configure(providers);
    if let Some(profile) = &args.profile {
        of_profile = of_profile.profile_name(profile);
    }
    let region = match args.region.clone().map(Region::new).or_else(|| clients::region(console.variable)) {
        None => of_profile.build().region().await,
        named => named,
    };
    let none = "no region: give --region, AWS_REGION or a profile with one";
    let filled = region.filter(|region| !region.as_ref().trim().is_empty());
    filled.ok_or_else(|| Failed::Work(none.to_owned()))
}

/// An error with what led to it.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
