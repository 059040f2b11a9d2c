//! The stacks and tools that may own a subscription, and would take a change back.
//!
//! Subscriptions have no tags. `CloudFormation` knows its own; of Terraform only the tags of topics may tell.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_cloudformation::error::ProvideErrorMetadata;

use super::row::{RowStep, StackOwner, SubscriptionRow};
use crate::console::ToolEnvironment;
use crate::doctor::{ReadError, ReadResult, read_error};
use crate::progress_line::ProgressLine;
use crate::tables::{count, thousands};

/// The tag that `CloudFormation` gives to what it creates.
/// <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-resource-tags.html>
const STACK_TAG: &str = "aws:cloudformation:stack-name";

/// The word by which teams mark what Terraform owns.
const TERRAFORM: &str = "terraform";

/// Finds the stacks of the subscriptions that are to be changed. Returns what is known in words.
pub(super) async fn owners(
    formation: &aws_sdk_cloudformation::Client,
    sns: &aws_sdk_sns::Client,
    rows: &mut [SubscriptionRow],
    console: &mut ToolEnvironment,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut changed: Vec<_> = rows.iter_mut().filter(|row| row.step == RowStep::Change).collect();
    if changed.is_empty() {
        return notes;
    }
    let unknown = stacks(formation, &mut changed, console).await;
    let owned: Vec<_> = changed.iter().filter_map(|row| row.owner.as_ref()).collect();
    if !owned.is_empty() {
        let stacks: BTreeSet<_> = owned.iter().map(|owner| owner.stack.as_str()).collect();
        let stacks: Vec<_> = stacks.into_iter().collect();
        notes.push(format!(
            "{} of CloudFormation stacks ({}) would be changed: change the templates too, else a later deployment can \
             take the queue away again.",
            count(owned.len() as u64, "subscription"),
            stacks.join(", ")
        ));
    }
    if let Some((number, error)) = unknown {
        notes.push(format!(
            "Cannot tell whether a stack owns {}: {} failed ({}).",
            count(number, "subscription"),
            error.call,
            error.reason()
        ));
    }
    let topics: BTreeSet<_> = changed.iter().map(|row| row.topic.clone()).collect();
    notes.extend(of_topics(sns, topics).await);
    notes
}

/// Asks `CloudFormation` for each subscription. Returns for how many the answer is unknown, with the last error.
async fn stacks(
    formation: &aws_sdk_cloudformation::Client,
    rows: &mut [&mut SubscriptionRow],
    console: &mut ToolEnvironment,
) -> Option<(u64, ReadError)> {
    let number = thousands(rows.len() as u64);
    let mut screen = ProgressLine::new(&mut *console.err, console.progress);
    // One answer lists all resources of a stack.
    let mut known: BTreeMap<String, StackOwner> = BTreeMap::new();
    let mut unknown: Option<(u64, ReadError)> = None;
    for (asked, row) in rows.iter_mut().enumerate() {
        if unknown.as_ref().is_some_and(|(_, error)| error.is_denied()) {
            unknown = unknown.map(|(number, error)| (number + 1, error));
            continue;
        }
        if !known.contains_key(&row.arn) {
            screen
                .show(&format!("{} of {number} subscriptions looked up in stacks", thousands(asked as u64)));
            match resources(formation, &row.arn).await {
                Ok(resources) => known.extend(resources),
                Err(error) => unknown = Some((unknown.map_or(0, |(number, _)| number) + 1, error)),
            }
        }
        row.owner = known.get(&row.arn).cloned();
    }
    unknown
}

/// Returns the resources of the stack that owns a subscription, by their physical ids; none if no stack owns it.
/// <https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResources.html>
async fn resources(
    formation: &aws_sdk_cloudformation::Client,
    subscription: &str,
) -> ReadResult<BTreeMap<String, StackOwner>> {
    let call = formation.describe_stack_resources().physical_resource_id(subscription).send().await;
    let listed = match call {
        Ok(listed) => listed,
        Err(error) if error.message().is_some_and(|said| said.contains("does not exist")) => {
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(read_error("cloudformation:DescribeStackResources", &error)),
    };
    let mut owners = BTreeMap::new();
    for resource in listed.stack_resources() {
        let stack = resource.stack_name().unwrap_or_default().to_owned();
        // The answer has at most a hundred resources, perhaps without the one that was asked for.
        let unnamed = StackOwner { stack: stack.clone(), resource: None };
        owners.entry(subscription.to_owned()).or_insert(unnamed);
        let (Some(id), Some(name)) = (resource.physical_resource_id(), resource.logical_resource_id()) else {
            continue;
        };
        owners.insert(id.to_owned(), StackOwner { stack, resource: Some(name.to_owned()) });
    }
    Ok(owners)
}

/// Returns what the tags of topics say about the owners of their subscriptions.
async fn of_topics(sns: &aws_sdk_sns::Client, topics: BTreeSet<String>) -> Vec<String> {
    let (mut notes, mut unread) = (Vec::new(), None);
    let mut is_any_of_terraform = false;
    for topic in topics {
        let tags = match tags(sns, &topic).await {
            Ok(tags) => tags,
            Err(error) => {
                unread = Some((topic, error));
                continue;
            }
        };
        if let Some((_, stack)) = tags.iter().find(|(key, _)| key == STACK_TAG) {
            notes
                .push(format!("The topic {topic} belongs to the stack {stack}; its subscriptions may, too."));
        }
        let is_mark = |text: &String| text.to_ascii_lowercase().contains(TERRAFORM);
        if let Some((key, value)) = tags.iter().find(|(key, value)| is_mark(key) || is_mark(value)) {
            is_any_of_terraform = true;
            notes.push(format!(
                "The topic {topic} has the tag {key}={value}. If Terraform owns its subscriptions, change its \
                 configuration too, else the next apply takes the queue away again."
            ));
        }
    }
    if let Some((topic, error)) = unread {
        let (call, why) = (error.call, error.reason());
        notes.push(format!("Cannot read the tags of {topic} and perhaps of others: {call} failed ({why})."));
    }
    if !is_any_of_terraform {
        notes.push(
            "Terraform leaves no sign on a subscription, and no tag of the topics names it.".to_owned(),
        );
    }
    notes
}

async fn tags(sns: &aws_sdk_sns::Client, topic: &str) -> ReadResult<Vec<(String, String)>> {
    let read = sns.list_tags_for_resource().resource_arn(topic).send().await;
    let read = read.map_err(|error| read_error("sns:ListTagsForResource", &error))?;
    Ok(read.tags().iter().map(|tag| (tag.key().to_owned(), tag.value().to_owned())).collect())
}
