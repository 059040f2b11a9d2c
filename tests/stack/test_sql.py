"""The queries of docs/guide/sql.md, over letters that the function archived: in DuckDB, as they are and translated."""

import re
from datetime import UTC, datetime, timedelta

import duckdb
import sqlglot
from world import outcome, policy

from local.sns import dead_letter, envelope, mark
from local.stack import ROOT

PAGE = (ROOT / "docs" / "guide" / "sql.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n.*?^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
TABLE, VIEW = SECTIONS.pop("The table"), SECTIONS.pop("DuckDB")


class Archive:
    """Archived letters by what they are, and a copy of the archive on disk."""

    def __init__(self, world, folder):
        self.topic = world.topic()
        deployment = world.deploy(policy(retries=1, delay=1, immediate=1), self.topic, queues=["billing"])
        billing = world.subscribe("billing", self.topic, deployment.queue_arn)
        billing.unplug()
        self.subscription = billing.subscription_arn
        self.queue = deployment.queue_arn.rsplit(":", 1)[1]
        gold = {"tenant": ("String", "gold")}
        marked = {"sns-redrive": ("String", mark("once more", "back-again", 2, passes=1))}
        self.ids = {
            "gold": self.put(deployment, "for ada@example.com", gold),
            "back": self.put(deployment, "once more", marked),
        }
        tenant = {"tenant": {"DataType": "String", "StringValue": "gold"}}
        value = mark('{"JSON": 1}', "raw-again", 1, passes=1)
        again = {"sns-redrive": {"DataType": "String", "StringValue": value}}
        self.ids["raw"] = dead_letter(deployment, "no JSON", tenant)
        self.ids["raw back"] = dead_letter(deployment, '{"JSON": 1}', again)
        for letter in self.ids.values():
            outcome(deployment, letter, "archived")
        s3, bucket = world.stack.client("s3"), deployment.outputs["ArchiveBucketName"]
        prefix = deployment.outputs["ArchiveLocation"].removeprefix(f"s3://{bucket}/") + "/"
        self.keys = {}
        for record in deployment.archive():
            self.keys[record["message"]["messageId"]] = path = folder / record["key"].removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, record["key"], str(path))

    def put(self, deployment, text, attributes):
        return dead_letter(deployment, envelope(self.topic, self.subscription, text, attributes=attributes))

    def adapted(self, query):
        """The query for this archive's queue and days."""
        yesterday, tomorrow = (f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}" for days in (-1, 1))
        for example, own in {"payments-dlq": self.queue, "2026-11-01": yesterday, "2026-11-30": tomorrow}.items():
            assert f"'{example}'" in query, query
            query = query.replace(f"'{example}'", f"'{own}'")
        return query


def test_queries_of_the_page_answer(world, tmp_path):
    archive = Archive(world, tmp_path / "archive")
    assert len(SECTIONS) == 3
    view = VIEW.replace("'archive/", f"'{tmp_path}/archive/")
    # What the page says, and the view alone with each query as sqlglot understands it.
    as_it_is, translated = duckdb.connect(), duckdb.connect()
    as_it_is.execute(view)
    translated.execute(view.split(";")[0])
    found = {}
    for title, query in SECTIONS.items():
        adapted = archive.adapted(query)
        [other] = sqlglot.transpile(adapted.rstrip().removesuffix(";"), read="athena", write="duckdb")
        found[title] = rows(as_it_is, adapted)
        assert rows(translated, other) == found[title], title

    ids = archive.ids
    assert {line["messageid"] for line in found["Letters of one tenant"]} == {ids["gold"], ids["raw"]}
    replays = {line["letterid"]: line["replays"] for line in found["Replayed, and back"]}
    assert replays == {"back-again": 2, "raw-again": 1}
    [person] = found["Letters of one person"]
    assert (person["messageid"], person["object"]) == (ids["gold"], str(archive.keys[ids["gold"]]))


def rows(database, query):
    found = database.sql(query)
    names = [name.lower() for name in found.columns]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_view_has_the_columns_of_the_table(tmp_path):
    folder = tmp_path / "archive" / "queue=q" / "date=2026-11-01"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    database = duckdb.connect()
    database.execute(VIEW.replace("'archive/", f"'{tmp_path}/archive/"))
    # The properties say where the data lies, which is nothing to DuckDB.
    columns = TABLE.split("ROW FORMAT")[0].replace("EXTERNAL ", "").replace("dead_letters", "athena")
    columns = columns.replace("\n)\nPARTITIONED BY (", ",\n  ")
    [table] = sqlglot.transpile(columns, read="athena", write="duckdb")
    database.execute(table)

    def described(name):
        types = database.sql(f"DESCRIBE {name}").fetchall()
        return {column.lower(): kind.lower().replace('"', "") for column, kind, *_ in types}

    assert described("dead_letters") == described("athena") | {"$path": "varchar"}
