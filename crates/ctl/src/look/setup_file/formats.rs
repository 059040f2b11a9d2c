//! The files of parameters.

use redrive_core::arn::Arn;

use super::parameters::{SetupParameter, SetupParameters};

/// Returns a `samconfig.toml`.
/// <https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/serverless-sam-cli-config.html>
pub(super) fn sam(parameters: &SetupParameters, queue: &Arn, region: &str) -> String {
    let lines: String = parameters.all.iter().map(sam_line).collect();
    let queue = queue.resource();
    format!(
        "# The deployment of sns-redrive on the queue {queue}. Options of the command line win over this file.\n\
         version = 0.1\n\
         \n\
         [default.deploy.parameters]\n\
         stack_name = \"sns-redrive\"\n\
         region = {region:?}\n\
         resolve_s3 = true\n\
         # Needed because the template can name a role (RoleName).\n\
         capabilities = \"CAPABILITY_NAMED_IAM\"\n\
         # Shows the changes, and asks before it deploys.\n\
         confirm_changeset = true\n\
         parameter_overrides = [\n\
         {lines}]\n"
    )
}

fn sam_line(parameter: &SetupParameter) -> String {
    let comment = parameter.comment.as_ref().map_or_else(String::new, |comment| format!("  # {comment}\n"));
    let off = if parameter.value.is_some() { "" } else { "# " };
    let value = parameter.value.as_deref().unwrap_or("...");
    // SAM reads a value with quotes in it only in quotes.
    let value = if value.contains('"') {
        format!("\"{}\"", without_escapes(value).replace('"', "\\\""))
    } else {
        value.to_owned()
    };
    format!("{comment}  {off}{},\n", toml_text(&format!("{}={value}", parameter.name)))
}

/// Returns JSON in which no backslash stands before a quotation mark or another backslash: of those SAM removes some.
fn without_escapes(json: &str) -> String {
    let mut text = String::new();
    let mut letters = json.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('\\') => text.push_str("\\u005c"),
            Some('"') => text.push_str("\\u0022"),
            escaped => {
                text.push(letter);
                text.extend(escaped);
            }
        }
    }
    text
}

/// Returns a text of TOML. A basic string and one of JSON have the same form.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a file of parameters for `CloudFormation`.
pub(super) fn cloudformation(parameters: &SetupParameters) -> String {
    format!("{:#}\n", parameters.to_json())
}
