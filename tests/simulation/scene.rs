//! A random world as the reader of its journal must know it.

use std::borrow::Cow;

use redrive_laws::letters::{LetterNumber, WorldNames, spent_by};
use redrive_sim::{AwsService, SimAttributes, SimCall, SimEntry, arn};
use serde_json::Value;

use crate::live::{CONTROL, TENANT, TOKEN, letter_at, subscription, text_of};
use crate::world::{
    ARCHIVE, DLQ, REQUEUE, SeededSource, SeededSubscriberState, SeededTarget, SeededWorld, endpoint,
};

/// A world, with its names.
pub struct Scene<'w> {
    world: &'w SeededWorld,
    names: WorldNames,
}

impl<'w> Scene<'w> {
    pub fn new(world: &'w SeededWorld) -> Self {
        let is_queue = world.source == SeededSource::Queue;
        let names = WorldNames {
            dlq: world.name(DLQ),
            requeue: world.name(REQUEUE),
            archive: world.name(ARCHIVE),
            control: format!("{ARCHIVE}/{CONTROL}/"),
            topic: (world.target == SeededTarget::Topic).then(|| world.topic()),
            witness: world.name("witness"),
            source: if is_queue { endpoint(world, 0) } else { String::new() },
            ..WorldNames::default()
        };
        Self { world, names }
    }

    fn letter(&self, who: LetterNumber) -> usize {
        who / self.world.subscribers.len()
    }

    fn subscriber(&self, who: LetterNumber) -> usize {
        who % self.world.subscribers.len()
    }

    /// Checks the message in an envelope or event, and its attribute if there is one.
    fn is_whole(&self, who: LetterNumber, text: &str, beside: Option<&SimAttributes>) -> Result<(), String> {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let (message, tenant) = content(text, &value, beside);
        let is_other =
            message != text_of(self.letter(who)) || tenant.as_deref().is_some_and(|it| it != TENANT);
        if is_other { Err(format!("arrived as {message}, {tenant:?}")) } else { Ok(()) }
    }

    /// Checks the message in a body that waits or rests. A record of Lambda's is whole in itself.
    fn is_kept(&self, who: LetterNumber, body: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let message = content(body, &value, None).0;
        let is_same = self.world.source == SeededSource::Destination || message == text_of(self.letter(who));
        if is_same { Ok(()) } else { Err(format!("kept as {message}")) }
    }
}

/// Returns the message in an envelope or event of SNS with its attribute, or the text if it is neither, with the
/// attribute that is beside it in a queue.
fn content<'t>(
    text: &'t str,
    value: &'t Value,
    beside: Option<&'t SimAttributes>,
) -> (&'t str, Option<Cow<'t, str>>) {
    let sns = value.pointer("/Records/0/Sns").unwrap_or(value);
    if let Some(message) = sns["Message"].as_str() {
        let tenant = sns["MessageAttributes"]["tenant"]["Value"].as_str().unwrap_or_default();
        (message, Some(tenant.into()))
    } else {
        let of = |attributes: &'t SimAttributes| attributes.get("tenant").map(|it| it.value.text());
        (text, beside.map(|attributes| of(attributes).unwrap_or_default().into()))
    }
}

impl redrive_laws::letters::WorldScene for Scene<'_> {
    fn names(&self) -> &WorldNames {
        &self.names
    }

    fn letters(&self, text: &str) -> Vec<LetterNumber> {
        // One search for all: there are many letters, and many texts.
        let mut letters: Vec<_> =
            text.match_indices(TOKEN).filter_map(|(at, _)| letter_at(&text[at..])).collect();
        letters.sort_unstable();
        letters.dedup();
        let subscribers = self.world.subscribers.len();
        let named: Vec<_> = (0..subscribers).filter(|one| text.contains(&subscription(*one))).collect();
        // A published message names no subscription.
        let named = if named.is_empty() { (0..subscribers).collect() } else { named };
        let of = |letter: usize| named.iter().map(move |one| letter * subscribers + one);
        letters.into_iter().flat_map(of).collect()
    }

    fn arrives(&self, who: LetterNumber, call: &SimCall, entry: &SimEntry) -> Result<Option<usize>, String> {
        let beside = ["SendMessageBatch", "PublishBatch"].contains(&call.operation.as_str());
        let is_own = call.target == endpoint(self.world, self.subscriber(who));
        if !is_own && self.names.topic.as_ref() != Some(&call.target) {
            return Err(format!("went astray to {}", call.target));
        }
        self.is_whole(who, entry.body.trim_end(), beside.then_some(&entry.attributes))?;
        Ok(spent_by(&entry.body, &entry.attributes))
    }

    fn moves(&self, who: LetterNumber, entry: &SimEntry) -> Result<Option<usize>, String> {
        self.is_kept(who, &entry.body)?;
        Ok(spent_by(&entry.body, &entry.attributes))
    }

    fn rests(&self, who: LetterNumber, entry: &SimEntry) -> Result<Option<String>, String> {
        self.is_kept(who, &entry.body)?;
        let record = entry.attributes.get("sns-redrive-archive").map(|it| it.value.text());
        let record: Value = serde_json::from_str(&record.unwrap_or_default()).unwrap_or_default();
        Ok(record["reason"].as_str().map(str::to_owned))
    }

    fn is_recorded(&self, who: LetterNumber, record: &Value) -> Result<(), String> {
        self.is_kept(who, record["message"]["body"].as_str().unwrap_or_default())
    }

    fn is_delivered(&self, who: LetterNumber, to: &str, entry: &SimEntry) -> Result<(), String> {
        if to != endpoint(self.world, self.subscriber(who)) {
            return Err(format!("went astray to {to}"));
        }
        // These letters have envelopes, with the attributes in them.
        self.is_whole(who, &entry.body, None)
    }

    fn subscription(&self, who: LetterNumber) -> String {
        format!("{}:{}", arn("sns", &self.world.topic()), subscription(self.subscriber(who)))
    }

    fn may_be_refused(&self, call: &SimCall) -> bool {
        call.service == AwsService::Web
            || self.world.subscribers.iter().any(|one| one.state == SeededSubscriberState::Gone)
                && call.operation == "GetSubscriptionAttributes"
    }
}
