/** The statements of the peer. Each is prepared once per connection, by its name. */

/** The step, if it was requested before, with its approval. */
const existing = `
  existing AS MATERIALIZED (
    SELECT
      s.tool, s.action_class, s.arguments_digest, s.rule_id, s.decision, s.reason, s.approval_id,
      coalesce(s.last_decision, s.decision) AS last_decision, s.outcome_at IS NOT NULL AS completed,
      a.outcome, a.decision_source, a.expires_at
    FROM governed_steps s
    LEFT JOIN approvals a ON a.org_id = s.org_id AND a.approval_id = s.approval_id
    WHERE s.org_id = $1 AND s.session_id = $2 AND s.step_id = $3
  ), rules AS MATERIALIZED (
    SELECT max(revision) AS revision FROM approval_rules WHERE org_id = $1
  )`

/** Locks the session and takes numbers for its events, unless the step exists or the rules have changed. */
const session = (events: number) => `
  session AS (
    UPDATE agent_sessions SET last_event = last_event + ${events}
    WHERE org_id = $1 AND session_id = $2 AND closed_at IS NULL
      AND NOT EXISTS (SELECT FROM existing)
      AND (SELECT revision FROM rules) IS NOT DISTINCT FROM $16::bigint
    RETURNING task_id, last_event
  )`

const step = `
  step AS (
    INSERT INTO governed_steps (
      org_id, session_id, step_id, task_id, tool, action_class, arguments, arguments_digest, rule_id, decision, reason, approval_id,
      requested_by_id, requested_at
    )
    SELECT $1, $2, $3, coalesce($4, task_id), $5, $6, $7::text::json, $8, $9, $10, $11, $12, $13, $14 FROM session
  )`

const result = `
  SELECT rules.revision, session.last_event, existing.*
  FROM rules
  LEFT JOIN session ON true
  LEFT JOIN existing ON true`

/** A step that a rule allows or rejects. */
export const govern = {
  name: "govern",
  text: `
  WITH ${existing}, ${session(1)}, ${step}, event AS (
    INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
    SELECT $1, $2, last_event, 'step:governed', $3, $14, ('{"id":' || last_event || ',' || $15)::json FROM session
  )
  ${result}`
}

/** One log row and one queue row for each endpoint. */
const deliveries = (
  from: string,
  parameters: Record<"shards" | "endpoints" | "deliveries" | "event" | "label" | "now", string>
) => `
  sent AS MATERIALIZED (
    SELECT d.* FROM ${from}, unnest(
      ${parameters.shards}::smallint[], ${parameters.endpoints}::text[], ${parameters.deliveries}::text[]
    ) AS d (shard, endpoint_id, delivery_id)
  ), logged AS (
    INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, size, status, created_at)
    SELECT $1, endpoint_id, delivery_id, 'webhook', ${parameters.event}, ${parameters.label}, 1, 'pending', ${parameters.now} FROM sent
  ), queued AS (
    INSERT INTO delivery_queue (
      shard, org_id, destination_id, delivery_id, channel, event_id, due_at, expires_at, attempt, first_attempt
    )
    SELECT shard, $1, endpoint_id, delivery_id, 'webhook', ${parameters.event}, now(), NULL, 0, 0 FROM sent
  )`

/** A step that waits for a person: its approval, two session events, the webhook event and its deliveries too. */
export const requestApproval = {
  name: "request-approval",
  text: `
  WITH ${existing}, ${session(2)}, ${step}, events AS (
    INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
    SELECT $1, $2, last_event - 1, 'step:governed', $3, $14, ('{"id":' || last_event - 1 || ',' || $15)::json FROM session
    UNION ALL
    SELECT $1, $2, last_event, 'approval:requested', $3, $14, ('{"id":' || last_event || ',' || $17)::json FROM session
  ), approval AS (
    INSERT INTO approvals (
      org_id, approval_id, session_id, step_id, task_id, tool, action_class, arguments, arguments_digest, status, stage, requested_at,
      requested_by_id, review_deadline_at, expires_at, timeout_action, self_approval, next_due_at, arguments_bytes
    )
    SELECT
      $1, $12, $2, $3, coalesce($4, task_id), $5, $6, $7::text::json, $8, 'pending', 'reviewer', $14,
      $13, $18, $18, $20, $21, $19, coalesce(octet_length($7), 0)
    FROM session
  ), event AS (
    INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
    SELECT $1, $22, 'approval.requested', $12, $23::bytea, $14 FROM session
  ), ${deliveries("session", {
    shards: "$24",
    endpoints: "$25",
    deliveries: "$26",
    event: "$22",
    label: "'approval.requested ' || $12",
    now: "$14"
  })}
  ${result}`
}

/** The first answer to a step after its decision has changed. */
export const resume = {
  name: "resume",
  text: `
  WITH answered AS (
    UPDATE governed_steps SET last_decision = $4
    WHERE org_id = $1 AND session_id = $2 AND step_id = $3 AND coalesce(last_decision, decision) <> $4
    RETURNING 1
  ), session AS (
    UPDATE agent_sessions SET last_event = last_event + 1
    WHERE org_id = $1 AND session_id = $2 AND EXISTS (SELECT FROM answered)
    RETURNING last_event
  )
  INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
  SELECT $1, $2, last_event, 'step:governed', $3, $5, ('{"id":' || last_event || ',' || $6)::json FROM session`
}

const iso = (column: string): string =>
  `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** A decision: the approval, the session event, the webhook event with its deliveries, and the entry of the audit log. */
export const decide = {
  name: "decide",
  text: `
  WITH found AS MATERIALIZED (
    -- By its key alone: with the other conditions beside it, the planner would scan the index of pending approvals.
    SELECT a.org_id, a.approval_id, a.session_id, a.status, a.stage, a.expires_at, a.self_approval, a.requested_by_id
    FROM agent_sessions s
    JOIN approvals a USING (org_id, session_id)
    WHERE org_id = $1 AND a.approval_id = $2
    FOR NO KEY UPDATE OF s, a
  ), locked AS MATERIALIZED (
    SELECT org_id, approval_id, session_id
    FROM found
    WHERE status = 'pending' AND stage = 'reviewer' AND expires_at > $5 AND (self_approval OR requested_by_id <> $6)
  ), session AS (
    UPDATE agent_sessions s SET last_event = last_event + 1
    FROM locked
    WHERE s.org_id = locked.org_id AND s.session_id = locked.session_id
    RETURNING s.last_event
  ), decided AS (
    UPDATE approvals a
    SET
      status = $3, outcome = $4, decision_source = 'human', decided_at = $5, decided_by_id = $6, decided_by_name = $7, comment = $8,
      next_due_at = NULL
    FROM locked
    WHERE a.org_id = locked.org_id AND a.approval_id = locked.approval_id
    RETURNING a.*
  ), event AS (
    INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
    SELECT
      $1, session_id, last_event, 'approval:decided', step_id, $5,
      json_build_object(
        'id', last_event, 'type', 'approval:decided', 'session_id', session_id, 'step_id', step_id, 'occurred_at', ${iso("$5")},
        'approval', json_build_object(
          'approval_id', approval_id, 'session_id', session_id, 'step_id', step_id, 'task_id', task_id, 'tool', tool,
          'action_class', action_class, 'arguments_digest', arguments_digest, 'status', status, 'stage', stage,
          'requested_at', ${iso("requested_at")}, 'review_deadline_at', ${iso("review_deadline_at")},
          'escalation_deadline_at', ${iso("escalation_deadline_at")}, 'expires_at', ${iso("expires_at")},
          'escalated_at', ${iso("escalated_at")}, 'timeout_action', timeout_action, 'outcome', outcome,
          'decision_source', decision_source, 'decided_at', ${iso("decided_at")},
          'decided_by', json_build_object('id', decided_by_id, 'name', decided_by_name), 'comment', comment
        )
      )
    FROM decided, session
  ), hook AS (
    INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
    SELECT
      $1, $9, 'approval.' || $3, approval_id,
      convert_to(
        json_build_object(
          'id', $9::text, 'type', 'approval.' || $3, 'org_id', $1::text, 'occurred_at', ${iso("$5")},
          'approval', json_build_object(
            'approval_id', approval_id, 'session_id', session_id, 'step_id', step_id, 'task_id', task_id, 'status', status,
            'stage', stage, 'requested_at', ${iso("requested_at")}, 'review_deadline_at', ${iso("review_deadline_at")},
            'escalation_deadline_at', ${iso("escalation_deadline_at")}, 'expires_at', ${iso("expires_at")},
            'decided_at', ${iso("decided_at")}, 'decided_by', json_build_object('id', decided_by_id, 'name', decided_by_name)
          )
        )::text,
        'UTF8'
      ),
      $5
    FROM decided
  ), ${deliveries("decided", {
    shards: "$10",
    endpoints: "$11",
    deliveries: "$12",
    event: "$9",
    label: "'approval.' || $3 || ' ' || $2",
    now: "$5"
  })}, entry AS (
    INSERT INTO audit_log (org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, detail)
    SELECT
      $1, $13, 'approval.' || $3, approval_id, $6, $7, $5,
      json_build_object('session_id', session_id, 'step_id', step_id, 'tool', tool, 'stage', stage)
    FROM decided
    RETURNING *
  ), head AS MATERIALIZED (
    SELECT h.position, h.digest
    FROM audit_heads h
      JOIN entry ON entry.org_id = h.org_id
    WHERE h.org_id = $1
    FOR NO KEY UPDATE OF h
  ), link AS (
    INSERT INTO audit_chain (org_id, position, entry_id, previous_digest, digest)
    SELECT
      org_id, position + 1, entry_id, digest,
      sha256(convert_to(concat(
        '["', encode(digest, 'hex'), '",', position + 1, ',', to_json(org_id), ',', to_json(entry_id), ',', to_json(action), ',',
        to_json(target_id), ',', to_json(actor_id), ',', to_json(actor_name), ',"',
        ${iso("occurred_at")}, '",null,', detail, ']'
      ), 'UTF8'))
    FROM entry
      CROSS JOIN head
    RETURNING *
  ), moved AS (
    UPDATE audit_heads h
    SET position = link.position, previous_digest = link.previous_digest, digest = link.digest
    FROM link
    WHERE h.org_id = $1
  )
  SELECT * FROM decided`
}

/** The result of a delivery: its attempt and its row of the log; out of the queue. */
export const delivered = {
  name: "delivered",
  text: `
  WITH removed AS (
    DELETE FROM delivery_queue WHERE shard = $1 AND org_id = $2 AND destination_id = $3 AND delivery_id = $4
  ), attempt AS (
    INSERT INTO delivery_attempts (org_id, destination_id, delivery_id, attempt, started_at, duration_ms, status)
    VALUES ($2, $3, $4, 1, $5, $6, 204)
  )
  UPDATE deliveries SET status = 'delivered', attempts = 1, finished_at = now(), status_code = 204
  WHERE org_id = $2 AND destination_id = $3 AND delivery_id = $4`
}

/** A run whose answer the caller supplies, if the task still has the schemas that it was validated by. */
export const logRun = {
  name: "log-run",
  text: `
  INSERT INTO runs (
    org_id, trace_id, run_id, task_id, release_id, dataset_id, session_id, source, status, input, answer, metadata, provider, model,
    input_tokens, output_tokens, provider_calls, duration_ms, created_at, created_by_id, created_by_name
  )
  SELECT
    $1, $2, $3, $4, r.release_id, r.dataset_id, $5, 'logged', 'succeeded', $6, $7, $8, r.provider ->> 'kind', r.provider ->> 'model',
    0, 0, 0, $9, $10, $11, $12
  FROM tasks t
  JOIN releases r ON r.org_id = t.org_id AND r.release_id = t.live_release_id
  WHERE t.org_id = $1 AND t.task_id = $4 AND t.input_schema_digest = $13 AND t.answer_schema_digest = $14
    AND t.first_run_at IS NOT NULL
    AND ($5::text IS NULL OR EXISTS (SELECT FROM agent_sessions s WHERE s.org_id = $1 AND s.session_id = $5))
  RETURNING release_id, dataset_id`
}
