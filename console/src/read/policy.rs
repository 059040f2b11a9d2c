//! The function's own policy.

use sns_redrive::clients::failure_of_call;
use sns_redrive::policy::Policy;

use super::collect::unread;
use crate::account::Clients;

/// Reads the policy by which a function works.
pub(crate) async fn policy(clients: &Clients, function: &str) -> Result<Policy, String> {
    let answer = clients.lambda.get_function_configuration().function_name(function).send().await;
    let answer =
        answer.map_err(|error| unread("lambda:GetFunctionConfiguration", &failure_of_call(&error)))?;
    let variables = answer.environment().and_then(|environment| environment.variables());
    let filled =
        |name: &str| variables.and_then(|all| all.get(name)).filter(|value| !value.trim().is_empty());
    if answer.environment().is_some_and(|environment| environment.error().is_some()) {
        return Err("nobody who may not use the key of its variables can read it (kms:Decrypt)".to_owned());
    }
    if filled("REDRIVE_POLICY_FILE").is_some() {
        return Err("it lies in a file that is packaged with the function".to_owned());
    }
    let Some(json) = filled("REDRIVE_POLICY") else { return Ok(Policy::built_in()) };
    Policy::parse(json).map_err(|bad| bad.to_string())
}
