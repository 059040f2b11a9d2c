//! Takes away what a drill has made: orders, records in the archive, subscriptions, queues, and the topic as the last, since by
//! its tag all else is found again.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::names::{TAG, id_in, prefix};
use super::report::Report;
use super::scene::{Scene, failed, is_gone};
use super::story::{Halt, LATELY, records, until};
use super::tool::Tool;
use crate::console::Failed;
use crate::place::Place;
use crate::text::count;
use sns_redrive::clients::Clients;
use sns_redrive::waiting::{LISTED_ABOVE, ended_order_key};

/// How long letters on their way are waited for, in seconds: those that no order wakes, and a minute for the mapping to hand
/// them over.
const WAITS: u64 = LISTED_ABOVE + 60;

/// How far back records are looked for that an earlier drill may have left.
const EVER: &str = "90d";

/// What takes the things of one drill away.
pub(super) struct Sweep<'a> {
    pub(super) scene: &'a Scene,
    pub(super) tool: Tool<'a>,
    pub(super) s3: aws_sdk_s3::Client,
    pub(super) archive: Place,
    pub(super) control: Place,
}

/// What is left, and why.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) left: Vec<String>,
}

impl Swept {
    /// Says what was taken away, or keeps why it was not.
    fn note<T: Display>(&mut self, what: &str, done: Result<Option<T>, Failed>, report: &mut Report<'_>) {
        match done {
            Ok(None) => {}
            Ok(Some(done)) => report.say(&format!("taken away: {done}")),
            Err(why) => {
                let left = format!("{what}: {why}");
                report.say(&format!("left: {left}"));
                self.left.push(left);
            }
        }
    }
}

impl Sweep<'_> {
    /// Takes everything away. What fails does not keep the rest; `on_the_way` letters are archived first, beside so many
    /// records.
    pub(super) async fn run(&self, on_the_way: u64, archived: u64, report: &mut Report<'_>) -> Swept {
        let mut swept = Swept::default();
        if on_the_way > 0 {
            report.say(&format!(
                "{} on the way: archived first, which takes up to three minutes",
                count(on_the_way, "letter")
            ));
            let done = self.archive_rest(on_the_way, archived).await;
            swept.note("letters on their way", done.map(|()| None::<&str>), report);
        }
        swept.note("orders", self.orders().await, report);
        swept.note("records in the archive", self.records().await, report);
        let topic = self.scene.names.topic();
        let ended = self.scene.unsubscribe().await;
        let some = |number: u64| (number > 0).then(|| count(number, "subscription"));
        swept.note("subscriptions", ended.map(some), report);
        for queue in [self.scene.names.broken(), self.scene.names.healthy()] {
            let deleted = self.scene.delete_queue(&queue).await;
            swept.note(
                &queue,
                deleted.map(|was_there| was_there.then(|| format!("the queue {queue}"))),
                report,
            );
        }
        if swept.left.is_empty() {
            let deleted = self.scene.delete_topic().await;
            swept.note(&topic, deleted.map(|()| Some(format!("the topic {topic}"))), report);
        } else {
            report.say(&format!("left: the topic {topic}, by which --clean finds the rest"));
        }
        swept
    }

    /// Has the function archive what is on its way, and waits until that is in the archive, beside so many records, or has
    /// come to the queue that was broken after all.
    async fn archive_rest(&self, on_the_way: u64, archived: u64) -> Result<(), Failed> {
        let (topic, broken) = (self.scene.names.topic_arn(), self.scene.names.broken());
        let why = format!("drill {} ends", self.scene.names.id);
        let words = ["archive", "--topic", &topic, "--future", "--for", "30m", "--why", &why, "--yes"];
        self.tool.run(&words).await?;
        let (never, mut came) = (AtomicBool::new(false), 0);
        let waited = until(WAITS, &never, "letters of the drill in the archive", async || {
            came += self.scene.take(&broken).await?.len() as u64;
            let records = records(&self.tool, self.scene, LATELY).await?.len() as u64;
            Ok((records + came >= archived + on_the_way).then_some(()))
        });
        match waited.await {
            Ok(()) | Err(Halt::Interrupted) => Ok(()),
            Err(Halt::Failed(failed)) => Err(failed),
        }
    }

    /// Takes back the orders about the drill's topic, and forgets them.
    async fn orders(&self) -> Result<Option<String>, Failed> {
        let topic = self.scene.names.topic_arn();
        let ids = |said: Vec<Value>| -> Vec<String> {
            let orders = said.into_iter().next().map(|mut said| said["orders"].take());
            let orders = orders.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
            let of_drill = orders.iter().filter(|order| order["match"]["topicArn"][0] == topic.as_str());
            of_drill.filter_map(|order| order["id"].as_str().map(str::to_owned)).collect()
        };
        let in_force = ids(self.tool.run(&["orders"]).await?);
        if !in_force.is_empty() {
            let words = in_force.iter().map(String::as_str);
            let words: Vec<_> =
                ["release"].into_iter().chain(words).chain(["--yes", "--why", "the drill ends"]).collect();
            self.tool.run(&words).await?;
        }
        let ended = ids(self.tool.run(&["orders", "--ended"]).await?);
        for id in &ended {
            self.forget(&self.control.bucket, &ended_order_key(&self.control.prefix, id)).await?;
        }
        Ok((!ended.is_empty()).then(|| count(ended.len() as u64, "order")))
    }

    /// Deletes the objects of the archive that have the drill's letters, and no others.
    async fn records(&self) -> Result<Option<String>, Failed> {
        let topic = self.scene.names.topic_arn();
        let records = records(&self.tool, self.scene, EVER).await?;
        let keys: BTreeSet<_> = records.iter().filter_map(|record| record["key"].as_str()).collect();
        for key in keys {
            if !self.is_all_of(&topic, key).await? {
                let said =
                    format!("s3://{}/{key} has letters of others, too, and stays", self.archive.bucket);
                return Err(Failed::Work(said));
            }
            self.forget(&self.archive.bucket, key).await?;
        }
        Ok((!records.is_empty()).then(|| format!("{} in the archive", count(records.len() as u64, "record"))))
    }

    /// Whether every line of an object of the archive is about the drill's topic.
    async fn is_all_of(&self, topic: &str, key: &str) -> Result<bool, Failed> {
        let object = self.s3.get_object().bucket(&self.archive.bucket).key(key).send().await;
        let object = object.map_err(|error| failed("s3:GetObject", &error))?;
        let bytes = object.body.collect().await.map_err(|error| Failed::Work(error.to_string()))?.to_vec();
        let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let of_drill = |line: &[u8]| {
            serde_json::from_slice::<Value>(line).is_ok_and(|record| record["topicArn"] == topic)
        };
        Ok(lines.all(of_drill))
    }

    /// Deletes every version of an object.
    async fn forget(&self, bucket: &str, key: &str) -> Result<(), Failed> {
        let listed = self.s3.list_object_versions().bucket(bucket).prefix(key).send().await;
        let listed = listed.map_err(|error| failed("s3:ListObjectVersions", &error))?;
        let versions = listed.versions().iter().map(|it| (it.key(), it.version_id()));
        let markers = listed.delete_markers().iter().map(|it| (it.key(), it.version_id()));
        for (_, version) in versions.chain(markers).filter(|(of, _)| *of == Some(key)) {
            let delete = self.s3.delete_object().bucket(bucket).key(key);
            let delete = delete.set_version_id(version.map(str::to_owned)).send().await;
            delete.map_err(|error| failed(format!("s3:DeleteObject of s3://{bucket}/{key}"), &error))?;
        }
        Ok(())
    }
}

/// Returns the ids of the drills of a stack of which a topic or a queue is there, with their tag.
pub(super) async fn find(clients: &Clients, stack: &str) -> Result<BTreeSet<String>, Failed> {
    let mut ids = BTreeSet::new();
    let mut token = None;
    loop {
        let page = clients.sns.list_topics().set_next_token(token).send().await;
        let page = page.map_err(|error| failed("sns:ListTopics", &error))?;
        for arn in page.topics().iter().filter_map(|topic| topic.topic_arn()) {
            let Some(id) = id_in(stack, arn.rsplit(':').next().unwrap_or_default()) else { continue };
            let tags = match clients.sns.list_tags_for_resource().resource_arn(arn).send().await {
                Ok(answer) => answer.tags.unwrap_or_default(),
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(failed("sns:ListTagsForResource", &error)),
            };
            if tags.iter().any(|tag| tag.key() == TAG && tag.value() == stack) {
                ids.insert(id);
            }
        }
        token = page.next_token().map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    let listed = clients.sqs.list_queues().queue_name_prefix(prefix(stack)).max_results(1_000).send().await;
    let listed = listed.map_err(|error| failed("sqs:ListQueues", &error))?;
    for url in listed.queue_urls() {
        let Some(id) = id_in(stack, url.rsplit('/').next().unwrap_or_default()) else { continue };
        let tags = match clients.sqs.list_queue_tags().queue_url(url).send().await {
            Ok(answer) => answer.tags.unwrap_or_default(),
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failed("sqs:ListQueueTags", &error)),
        };
        if tags.get(TAG).is_some_and(|value| value == stack) {
            ids.insert(id);
        }
    }
    Ok(ids)
}
