//! The function's own policy.

use sns_redrive::clients::failure_of_call;
use sns_redrive::policy::Policy;
use sns_redrive::replay::Deployed;

use super::collect::unread;
use crate::account::Clients;

/// Reads the policy by which a function works.
pub(crate) async fn policy(clients: &Clients, function: &str) -> Result<Policy, String> {
    let answer = clients.lambda.get_function_configuration().function_name(function).send().await;
    let answer =
        answer.map_err(|error| unread("lambda:GetFunctionConfiguration", &failure_of_call(&error)))?;
    let deployed = Deployed::read(&answer).map_err(|failure| unread("kms:Decrypt", &failure))?;
    if deployed.has_policy_file {
        return Err("it lies in a file that is packaged with the function".to_owned());
    }
    deployed.settings.map(|settings| settings.policy).map_err(|bad| bad.to_string())
}
