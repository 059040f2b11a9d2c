//! The policy from the function's configuration.

use redrive_aws::clients::failure_of_call;
use redrive_core::policy::Policy;
use redrive_replay::DeployedSettings;
use tokio::time::{Instant, timeout_at};

use super::collect::unread;
use crate::account::{ConsoleAccount, ConsoleClients};

/// Reads the function's policy; `None` if the account does not name the function.
pub(crate) async fn policy(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    until: Instant,
) -> Option<Result<Policy, String>> {
    let function = account.function.as_ref()?;
    let read = timeout_at(until, of_function(clients, function)).await;
    Some(read.unwrap_or_else(|_| Err("it was not read in time".to_owned())))
}

async fn of_function(clients: &ConsoleClients, function: &str) -> Result<Policy, String> {
    let answer = clients.lambda.get_function_configuration().function_name(function).send().await;
    let answer =
        answer.map_err(|error| unread("lambda:GetFunctionConfiguration", &failure_of_call(&error)))?;
    let mut deployed = DeployedSettings::read(&answer).map_err(|failure| unread("kms:Decrypt", &failure))?;
    if deployed.has_policy_file {
        return Err("it lies in a file that is packaged with the function".to_owned());
    }
    deployed.read_policy(&clients.s3).await.map_err(|unread| unread.to_string())?;
    deployed.settings.map(|settings| settings.policy).map_err(|bad| bad.to_string())
}
