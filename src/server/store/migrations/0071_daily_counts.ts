import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/** The day of a moment, in UTC. */
const dayOf = (column: string) => `(${column} AT TIME ZONE 'UTC')::date`

/** The counters of a backend: those of others can be written at the same time. */
const slot = (slots: number) => `pg_backend_pid() % ${slots}`

/** Rows before an update, which stop counting, and after it. */
const changes = (columns: string) => `
  SELECT 1 AS sign, ${columns} FROM after
  UNION ALL
  SELECT -1 AS sign, ${columns} FROM before`

/** Closed approvals as the counters have them. Times are in steps of a tenth, as in `bucketSeconds.ts`. */
const closedApprovals = (rows: string) => `
  SELECT
    sign, org_id, ${dayOf("decided_at")} AS day, tool, decided_by_id,
    CASE status WHEN 'expired' THEN decision_source ELSE status END AS outcome,
    CASE decision_source
      WHEN 'human' THEN floor(ln(greatest(1, extract(epoch FROM decided_at - requested_at)::float8)) / ln(1.1::float8))::smallint
      ELSE -1
    END AS bucket,
    (escalated_at IS NOT NULL)::int AS is_escalated
  FROM (${rows}) AS approval
  WHERE status <> 'pending'
    AND decided_at IS NOT NULL
    AND decision_source IS NOT NULL`

const approvalColumns =
  "org_id, tool, status, decision_source, decided_by_id, requested_at, decided_at, escalated_at"

/** All statements lock counters in the same order, or two of them could deadlock: by the columns of the key. */
const countApprovals = (rows: string) => [
  `INSERT INTO approval_counts AS c (org_id, day, outcome, bucket, slot, closed, escalated)
  SELECT org_id, day, outcome, bucket, ${slot(4)}, sum(sign), sum(sign * is_escalated)
  FROM (${closedApprovals(rows)}) AS closed
  GROUP BY 1, 2, 3, 4
  HAVING sum(sign) <> 0
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, day, outcome, bucket, slot) DO UPDATE
  SET closed = c.closed + excluded.closed, escalated = c.escalated + excluded.escalated`,
  `INSERT INTO approval_group_counts AS c (org_id, day, kind, name, outcome, slot, closed)
  SELECT org_id, day, kind, name, outcome, ${slot(4)}, sum(sign)
  FROM (${closedApprovals(rows)}) AS closed
    CROSS JOIN LATERAL (VALUES ('tool', tool), ('person', decided_by_id)) AS "group" (kind, name)
  WHERE name IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5
  HAVING sum(sign) <> 0
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, day, kind, name, outcome, slot) DO UPDATE
  SET closed = c.closed + excluded.closed`
]

/** Counts completed deliveries by the day that enqueued them: a replay moves a delivery, and is no second one. */
const countDeliveries = (rows: string) => `
  INSERT INTO delivery_counts AS c (org_id, day, destination_id, slot, delivered, failed)
  SELECT
    org_id, ${dayOf("created_at")} AS day, destination_id, ${slot(4)},
    coalesce(sum(sign) FILTER (WHERE status <> 'failed'), 0), coalesce(sum(sign) FILTER (WHERE status = 'failed'), 0)
  FROM (${rows}) AS delivery
  WHERE status <> 'pending'
  GROUP BY 1, 2, 3
  HAVING sum(sign) FILTER (WHERE status = 'failed') <> 0 OR sum(sign) FILTER (WHERE status <> 'failed') <> 0
  ORDER BY 1, 2, 3
  ON CONFLICT (org_id, day, destination_id, slot) DO UPDATE
  SET delivered = c.delivered + excluded.delivered, failed = c.failed + excluded.failed`

const countRuns = (rows: string, sign: "" | "-") => `
  INSERT INTO run_counts AS c (org_id, day, task_id, release_id, slot, runs)
  SELECT
    org_id, ${dayOf("created_at")}, task_id, CASE source WHEN 'provider' THEN release_id ELSE '' END, ${slot(8)}, ${sign}count(*)
  FROM ${rows}
  GROUP BY 1, 2, 3, 4
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, day, task_id, release_id, slot) DO UPDATE
  SET runs = c.runs + excluded.runs`

const trigger = (name: string, body: string) =>
  `CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      ${body};
      RETURN NULL;
    END
  $$`

/** Retention keeps counts: they tell nothing about a person. */
const UNLESS_KEPT = `WHEN (current_setting('countersign.keeps_feedback_counts', true) IS DISTINCT FROM 'on')`

/**
 * Counts per day for the console's overview. Triggers maintain them with the rows, so that a count is exact after a crash, and
 * replicas of an older version count too. The triggers of the updates that most statements are not about return at once.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE approval_counts (
      org_id text COLLATE "C" NOT NULL,
      day date NOT NULL,
      outcome text COLLATE "C" NOT NULL,
      bucket smallint NOT NULL,
      slot smallint NOT NULL,
      closed bigint NOT NULL,
      escalated bigint NOT NULL,
      PRIMARY KEY (org_id, day, outcome, bucket, slot)
    ) WITH (fillfactor = 50)`,
    `CREATE TABLE approval_group_counts (
      org_id text COLLATE "C" NOT NULL,
      day date NOT NULL,
      kind text COLLATE "C" NOT NULL,
      name text COLLATE "C" NOT NULL,
      outcome text COLLATE "C" NOT NULL,
      slot smallint NOT NULL,
      closed bigint NOT NULL,
      PRIMARY KEY (org_id, day, kind, name, outcome, slot)
    ) WITH (fillfactor = 50)`,
    `CREATE TABLE delivery_counts (
      org_id text COLLATE "C" NOT NULL,
      day date NOT NULL,
      destination_id text COLLATE "C" NOT NULL,
      slot smallint NOT NULL,
      delivered bigint NOT NULL,
      failed bigint NOT NULL,
      PRIMARY KEY (org_id, day, destination_id, slot)
    ) WITH (fillfactor = 50)`,
    `CREATE TABLE run_counts (
      org_id text COLLATE "C" NOT NULL,
      day date NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      release_id text COLLATE "C" NOT NULL,
      slot smallint NOT NULL,
      runs bigint NOT NULL,
      PRIMARY KEY (org_id, day, task_id, release_id, slot)
    ) WITH (fillfactor = 50)`,
    `CREATE INDEX run_counts_task ON run_counts (org_id, task_id)`,
    `CREATE INDEX feedback_counts_days ON feedback_counts (org_id, day)`,
    trigger(
      "approvals_updated",
      `IF NOT EXISTS (SELECT FROM after WHERE status <> 'pending') THEN
        RETURN NULL;
      END IF;
      ${countApprovals(changes(approvalColumns)).join(";\n")}`
    ),
    `CREATE TRIGGER approvals_updated AFTER UPDATE ON approvals
      REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION approvals_updated()`,
    trigger("approvals_removed", countApprovals("SELECT -1 AS sign, * FROM before").join(";\n")),
    `CREATE TRIGGER approvals_removed AFTER DELETE ON approvals
      REFERENCING OLD TABLE AS before FOR EACH STATEMENT ${UNLESS_KEPT} EXECUTE FUNCTION approvals_removed()`,
    // The lock of CREATE TRIGGER keeps writers out until the commit: nothing is counted twice or missed.
    ...countApprovals("SELECT 1 AS sign, * FROM approvals"),
    trigger(
      "deliveries_updated",
      `IF NOT EXISTS (SELECT FROM after WHERE status <> 'pending')
        AND NOT EXISTS (SELECT FROM before WHERE status <> 'pending') THEN
        RETURN NULL;
      END IF;
      ${countDeliveries(changes("org_id, destination_id, created_at, status"))}`
    ),
    `CREATE TRIGGER deliveries_updated AFTER UPDATE ON deliveries
      REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION deliveries_updated()`,
    // A delivery to a destination whose queue is full fails at once.
    trigger(
      "delivery_refused",
      countDeliveries(
        "SELECT 1 AS sign, NEW.org_id AS org_id, NEW.destination_id AS destination_id, NEW.created_at AS created_at, NEW.status AS status"
      )
    ),
    `CREATE TRIGGER delivery_refused AFTER INSERT ON deliveries
      FOR EACH ROW WHEN (NEW.status <> 'pending') EXECUTE FUNCTION delivery_refused()`,
    countDeliveries("SELECT 1 AS sign, org_id, destination_id, created_at, status FROM deliveries"),
    trigger("runs_counted", countRuns("added", "")),
    `CREATE TRIGGER runs_counted AFTER INSERT ON runs
      REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION runs_counted()`,
    trigger("runs_uncounted", countRuns("removed", "-")),
    `CREATE TRIGGER runs_uncounted AFTER DELETE ON runs
      REFERENCING OLD TABLE AS removed FOR EACH STATEMENT ${UNLESS_KEPT} EXECUTE FUNCTION runs_uncounted()`,
    countRuns("runs", "")
  ),
  comments({
    approval_counts: [
      "Closed approvals per day and time to decision. Kept by triggers on approvals. A count is the sum over all slots.",
      {
        ...orgId,
        day: "Day of the close, in UTC.",
        outcome: "approved, rejected, timeout or session_closed.",
        bucket:
          "Time from the request to the decision of a person: from 1.1 to the power of bucket, to 1.1 to the power of bucket + 1 seconds. -1: no person decided.",
        slot: "Part of the counter: concurrent statements add to different ones.",
        closed: "Approvals.",
        escalated: "Those that were escalated."
      }
    ],
    approval_group_counts: [
      "Closed approvals per day and tool, and per day and person. Kept by triggers on approvals. A count is the sum over all slots.",
      {
        ...orgId,
        day: "Day of the close, in UTC.",
        kind: "tool or person.",
        name: "Tool, or API key that decided.",
        outcome: "approved, rejected, timeout or session_closed.",
        slot: "Part of the counter: concurrent statements add to different ones.",
        closed: "Approvals."
      }
    ],
    delivery_counts: [
      "Completed deliveries per destination and day. Kept by triggers on deliveries. A count is the sum over all slots.",
      {
        ...orgId,
        day: "Day on which the deliveries were enqueued, in UTC.",
        destination_id: "Destination.",
        slot: "Part of the counter: concurrent statements add to different ones.",
        delivered: "Deliveries that arrived, also in part.",
        failed: "Deliveries that failed."
      }
    ],
    run_counts: [
      "Runs per release and day. Kept by triggers on runs. A count is the sum over all slots.",
      {
        ...orgId,
        day: "Day of the runs, in UTC.",
        task_id: "Task of the runs.",
        release_id: "Release that answered the runs; empty: clients supplied the answers.",
        slot: "Part of the counter: concurrent statements add to different ones.",
        runs: "Logged runs."
      }
    ]
  })
)
