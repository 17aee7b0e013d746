import { assert, describe, it } from "@effect/vitest"
import { Metric, Schema } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import os from "node:os"
import path from "node:path"
import { stringify } from "yaml"
import { findTool } from "../../../scripts/deploy/chartTools.ts"
import { anchors, readDocument } from "../../../scripts/docs/markdown.ts"
import { SHARDS } from "../../../src/server/delivery/Delivery/shardOf.ts"
import * as definitions from "../../../src/server/observability/metricDefinitions.ts"
import { helm, readChartYaml, resources, run, template } from "../../support/helmChart.ts"

const alerts = Schema.decodeUnknownSync(
  Schema.NonEmptyArray(
    Schema.Struct({
      key: Schema.String,
      alert: Schema.String,
      expr: Schema.String,
      summary: Schema.String,
      description: Schema.String,
      runbook: Schema.optionalKey(Schema.String)
    })
  )
)(readChartYaml("alerts.yaml"))

const values = Schema.decodeUnknownSync(
  Schema.Struct({
    metrics: Schema.Struct({
      prometheusRule: Schema.Struct({
        alerts: Schema.Record(
          Schema.String,
          Schema.Struct({
            enabled: Schema.Boolean,
            for: Schema.String,
            severity: Schema.Literals(["critical", "warning"]),
            threshold: Schema.optionalKey(Schema.Number),
            minimum: Schema.optionalKey(Schema.Number)
          })
        )
      })
    })
  })
)(readChartYaml("values.yaml")).metrics.prometheusRule.alerts

/** The labels of each metric, by name. */
const labelsOf = new Map(
  Object.values(definitions).flatMap((exported) => {
    const metric: unknown =
      typeof exported === "function" ? Reflect.apply(exported, undefined, ["a", "b", "c", "d"]) : exported
    return Metric.isMetric(metric)
      ? [[metric.id, Object.keys(metric.attributes ?? {}).filter((name) => name !== "unit")] as const]
      : []
  })
)

/** Prometheus itself records it for each target. */
const UP = "up"

/** The label of a target. */
const INSTANCE = "instance"

/** The series that an expression reads: names with their label matchers. */
const selectors = (expr: string) =>
  [...expr.matchAll(/([a-z_]+)\{([^}]*)\}/g)].map(([, name = "", matchers = ""]) => ({ name, matchers }))

describe("the alerts of the Helm chart", () => {
  it("read metrics that the service has, by labels and label values that these metrics have", () => {
    const meanings = readDocument("docs/metrics.md")
    assert.isAbove(labelsOf.size, 30)
    for (const { alert, description, expr, summary } of alerts) {
      const found = selectors(expr)
      assert.isNotEmpty(found, alert)
      const known = new Set([INSTANCE])
      for (const { matchers, name } of found) {
        const labels = labelsOf.get(name) ?? []
        if (!labelsOf.has(name)) assert.strictEqual(name, UP, alert)
        for (const label of labels) known.add(label)
        const [first, ...more] = matchers.split(", ")
        assert.strictEqual(first, "$selector", alert)
        for (const matcher of more) {
          const [, label = "", pattern = ""] = /^([a-z_]+)(?:=|!=|=~|!~)"([^"]*)"$/.exec(matcher) ?? []
          assert.include(labels, label, `${alert}: ${matcher}`)
          if (label === "status") continue
          for (const value of pattern.split("|")) assert.include(meanings, `\`${value}\``, alert)
        }
      }
      const grouping = [...expr.matchAll(/by \(([^)]*)\)/g)].map(([, label = ""]) => label)
      const shown = [...(summary + description).matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => label)
      for (const label of [...grouping, ...shown]) assert.isTrue(known.has(label), `${alert}: ${label}`)
      // An aggregation keeps the labels of its `by` only.
      if (/^(sum|min|max|count|absent)\b/.test(expr))
        for (const label of shown) assert.include(grouping, label, alert)
      // No name is left over that is not a selector, such as one without the labels of the installation.
      assert.notMatch(expr.replaceAll(/[a-z_]+\{[^}]*\}/g, ""), /countersign_|process_|nodejs_|\bup\b/, alert)
    }
  })

  it("have one name, values of their own, a summary, and a description that says what to do", () => {
    assert.strictEqual(new Set(alerts.map(({ alert }) => alert)).size, alerts.length)
    assert.deepStrictEqual(alerts.map(({ key }) => key).toSorted(), Object.keys(values).toSorted())
    for (const { alert, description, expr, key, summary } of alerts) {
      assert.strictEqual(alert, `Countersign${key[0]?.toUpperCase()}${key.slice(1)}`)
      for (const place of ["threshold", "minimum"] as const)
        assert.strictEqual(expr.includes(`$${place}`), values[key]?.[place] !== undefined, `${key}.${place}`)
      assert.isBelow(summary.length, 120, alert)
      for (const text of [summary, description]) assert.match(text, /\.$/, alert)
    }
  })

  it("have runbooks that are sections of the documentation", () => {
    for (const { alert, runbook } of alerts) {
      if (runbook === undefined) continue
      const [file = "", anchor = ""] = runbook.split("#")
      assert.isTrue(anchors(`docs/${file}`).has(anchor), `${alert}: ${runbook}`)
    }
  })

  it("are those that docs/metrics.md describes", () => {
    const rows = [
      ...readDocument("docs/metrics.md").matchAll(/^\| `(Countersign\w+)` +\| `([^`]+)` +\| (\S+) /gm)
    ]
    assert.deepStrictEqual(
      rows.map(([, alert, expr = "", duration]) => [alert, expr.replaceAll("\\|", "|"), duration]),
      alerts.map(({ alert, expr, key }) => [alert, documented(expr, key), values[key]?.for])
    )
    const [, critical = ""] =
      /\n\n(`Countersign[^.]*) have the severity `critical`/.exec(readDocument("docs/metrics.md")) ?? []
    assert.deepStrictEqual(
      [...critical.matchAll(/`(\w+)`/g)].map(([, alert]) => alert),
      alerts.filter(({ key }) => values[key]?.severity === "critical").map(({ alert }) => alert)
    )
  })
})

/** An expression with the default values, for all series. */
const documented = (expr: string, key: string) =>
  expr
    .replaceAll("{$selector}", "")
    .replaceAll("$selector, ", "")
    .replaceAll("$total", String(SHARDS))
    .replaceAll("$threshold", String(values[key]?.threshold))
    .replaceAll("$minimum", String(values[key]?.minimum))

const RenderedRule = Schema.Struct({
  alert: Schema.String,
  expr: Schema.String,
  for: Schema.String,
  labels: Schema.Record(Schema.String, Schema.String),
  annotations: Schema.Record(Schema.String, Schema.String)
})
const PrometheusRule = Schema.Struct({
  metadata: Schema.Struct({
    namespace: Schema.String,
    labels: Schema.Record(Schema.String, Schema.String)
  }),
  spec: Schema.Struct({
    groups: Schema.NonEmptyArray(Schema.Struct({ name: Schema.String, rules: Schema.Array(RenderedRule) }))
  })
})

const rendered = (...more: ReadonlyArray<string>) => {
  const { err, ok, out } = template("full-values.yaml", ...more)
  assert.isTrue(ok, err)
  const rule = resources(out).find((one) => one["kind"] === "PrometheusRule")
  return Schema.decodeUnknownSync(PrometheusRule)(rule)
}

if (helm === undefined)
  process.stdout.write("the alerts are not rendered: helm is not installed; npm run chart installs it\n")

describe.skipIf(helm === undefined)("the rendered PrometheusRule", () => {
  it("exists only if it is enabled", () => {
    const kinds = resources(template("minimal-values.yaml").out).map((one) => one["kind"])
    assert.notInclude(kinds, "PrometheusRule")
  })

  it("has the enabled alerts with the thresholds of the values, for the series of this installation", () => {
    const { metadata, spec } = rendered()
    assert.strictEqual(metadata.namespace, "monitoring")
    assert.strictEqual(metadata.labels["release"], "prometheus")
    const { rules } = spec.groups[0]
    assert.deepStrictEqual(
      rules.map(({ alert }) => alert),
      alerts.map(({ alert }) => alert).filter((alert) => alert !== "CountersignMixedVersions")
    )
    const labels = 'job="countersign", namespace="apps"'
    for (const { alert, annotations, expr, labels: alertLabels } of rules) {
      const source = alerts.find((one) => one.alert === alert)
      if (source === undefined) assert.fail(alert)
      for (const { matchers, name } of selectors(expr)) {
        assert.isTrue(name === UP || labelsOf.has(name), `${alert}: ${name}`)
        assert.isTrue(matchers === labels || matchers.startsWith(`${labels}, `), `${alert}: ${matchers}`)
      }
      assert.strictEqual(
        expr.replaceAll(`{${labels}}`, "").replaceAll(`${labels}, `, ""),
        alert === "CountersignDeliveryLate"
          ? "countersign_delivery_oldest_due_seconds > 120"
          : documented(source.expr, source.key)
      )
      assert.notMatch(`${expr}${annotations["summary"]}${annotations["description"]}`, /\$(?!labels|value)/)
      assert.deepStrictEqual(alertLabels, {
        severity: values[source.key]?.severity ?? assert.fail(alert),
        team: "platform"
      })
      assert.strictEqual(
        annotations["runbook_url"],
        source.runbook === undefined
          ? undefined
          : `https://git.example.com/countersign/docs/${source.runbook}`
      )
    }
  })

  it("reads other labels of the series, and has no runbook_url without a place of the documentation", () => {
    const { rules } = rendered(
      ...["--set", "metrics.prometheusRule.selector.cluster=eu,metrics.prometheusRule.docsUrl="]
    ).spec.groups[0]
    for (const { annotations, expr } of rules) {
      assert.include(expr, '{cluster="eu"')
      assert.notInclude(expr, "namespace=")
      assert.notProperty(annotations, "runbook_url")
    }
  })
})

const promtool = findTool("promtool")
if (promtool === undefined)
  process.stdout.write(
    "Prometheus does not check the alerts: promtool is not installed; npm run chart installs it\n"
  )

describe.skipIf(helm === undefined || promtool === undefined)("Prometheus", () => {
  /** The values of the example disable one alert, and some wait longer than the rules are played. */
  const PLAYABLE = [
    "mixedVersions.enabled=true",
    "mixedVersions.for=10m",
    "backupOld.for=10m",
    "oldMasterKey.for=10m"
  ].flatMap((value) => ["--set", `metrics.prometheusRule.alerts.${value}`])

  /** Runs promtool with the rules of the full values and the given series, one value a minute. */
  const testRules = (cases: ReadonlyArray<object>) => {
    const folder = mkdtempSync(path.join(os.tmpdir(), "countersign-alerts-"))
    try {
      writeFileSync(path.join(folder, "rules.yaml"), stringify(rendered(...PLAYABLE).spec))
      writeFileSync(
        path.join(folder, "tests.yaml"),
        stringify({ rule_files: ["rules.yaml"], evaluation_interval: "1m", tests: cases })
      )
      const checked = run(promtool ?? "", [
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        path.join(folder, "rules.yaml")
      ])
      assert.isTrue(checked.ok, checked.out + checked.err)
      return run(promtool ?? "", ["test", "rules", path.join(folder, "tests.yaml")])
    } finally {
      rmSync(folder, { recursive: true })
    }
  }

  const series = (name: string, labels: Record<string, string>, text: string) => ({
    series: `${name}{${Object.entries({ job: "countersign", namespace: "apps", ...labels })
      .map(([label, value]) => `${label}="${value}"`)
      .join(",")}}`,
    values: text
  })
  const replicas = (name: string, text: string, labels: Record<string, string> = {}) =>
    ["a", "b"].map((instance) => series(name, { instance, ...labels }, text))

  /** The alerts that fire after 40 minutes, as a query over Prometheus' own series of them. */
  const firing = (name: string, input: ReadonlyArray<object>, expected: ReadonlyArray<string>) => ({
    name,
    interval: "1m",
    input_series: input,
    promql_expr_test: [
      {
        expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: "40m",
        exp_samples: expected.map((alert) => ({
          labels: `{alertname="Countersign${alert}"}`,
          value: 1
        }))
      }
    ]
  })

  const healthy = [
    ...replicas("up", "1x60"),
    ...replicas("process_start_time_seconds", "1000x60"),
    ...replicas("countersign_metrics_failures_total", "0x60"),
    ...replicas("countersign_worker_failures_total", "0x60", { worker: "approval_deadlines" }),
    ...replicas("countersign_delivery_shards", "128x60"),
    ...replicas("countersign_deliveries_total", "0+60x60", { channel: "webhook", verdict: "delivered" }),
    ...["failed", "gone", "queue_full"].flatMap((verdict) =>
      replicas("countersign_deliveries_total", "0x60", { channel: "webhook", verdict })
    ),
    ...replicas("countersign_deliveries_total", "0+1x60", { channel: "mail", verdict: "refused" }),
    ...replicas("countersign_delivery_cooling_destinations", "0x60", { channel: "webhook" }),
    ...replicas("countersign_approvals_closed_total", "0+4x60", { source: "human", outcome: "allow" }),
    ...replicas("countersign_approvals_closed_total", "0+1x60", { source: "timeout", outcome: "reject" }),
    ...replicas("countersign_approvals_oldest_pending_seconds", "600x60"),
    ...replicas("countersign_limit_use_ratio", "0.5x60", { limit: "stored_bytes" }),
    ...replicas("countersign_limit_use_ratio", "0.95x60", { limit: "key_requests" }),
    ...replicas("countersign_authentication_refusals_total", "0+5x60", { reason: "expired" }),
    ...replicas("countersign_single_sign_on_failures_total", "0x60", { reason: "provider" }),
    ...replicas("countersign_single_sign_on_failures_total", "0+1x60", { reason: "person" }),
    ...replicas("countersign_secrets_under_old_keys", "0x60"),
    ...replicas("countersign_newest_backup_timestamp_seconds", "0x60"),
    ...replicas("countersign_store_disk_free_bytes", "50000000000x60"),
    ...replicas("countersign_store_server_connections", "40x60"),
    ...replicas("countersign_store_server_connections_max", "97x60"),
    ...replicas("countersign_delivery_oldest_due_seconds", "1x60", { channel: "webhook" }),
    ...replicas("countersign_store_transactions", "0x60", { state: "waiting" }),
    ...replicas("countersign_store_oldest_snapshot_seconds", "2x60"),
    ...replicas("countersign_store_xmin_age_transactions", "1000x60"),
    ...replicas("countersign_event_loop_delay_seconds", "0.01x60", { statistic: "p99" }),
    ...replicas("countersign_http_connections_refused_total", "0x60", { reason: "total" }),
    ...replicas("countersign_worker_last_success_timestamp_seconds", "0+60x60", {
      worker: "approval_deadlines"
    }),
    ...replicas("countersign_http_requests_total", "0+600x60", { operation: "steps.submit", status: "200" }),
    ...replicas("countersign_http_requests_total", "0+6x60", { operation: "runs.create", status: "503" }),
    ...replicas("countersign_http_requests_total", "0+600x60", { operation: "runs.create", status: "502" }),
    ...replicas("countersign_delivery_attempts_total", "0+60x60", {
      channel: "webhook",
      outcome: "delivered"
    }),
    ...replicas("countersign_delivery_attempts_total", "0+30x60", { channel: "webhook", outcome: "retry" })
  ]
  /** The healthy series with others in place of those of the same names. */
  const but = (...changed: ReadonlyArray<{ readonly series: string }>) => {
    const names = new Set(changed.map((one) => one.series.split("{")[0]))
    return [...healthy.filter((one) => !names.has(one.series.split("{")[0])), ...changed]
  }

  const deadlines = { worker: "approval_deadlines" }
  const webhook = { channel: "webhook" }
  const faults: ReadonlyArray<
    readonly [name: string, input: ReadonlyArray<object>, expected: ReadonlyArray<string>]
  > = [
    ["no fault", healthy, []],
    ["no replica answers", but(...replicas("up", "0x60")), ["Down", "ReplicaDown"]],
    [
      "one replica answers",
      but(series("up", { instance: "a" }, "1x60"), series("up", { instance: "b" }, "0x60")),
      ["ReplicaDown"]
    ],
    [
      "replicas restart",
      but(...replicas("process_start_time_seconds", "1000x14 2000x4 3000x4 4000x40")),
      ["Restarting"]
    ],
    [
      "a roll-out does not end",
      [
        ...healthy,
        ...["0.1.0", "0.2.0"].map((version) => series("countersign_build_info", { version }, "1x60"))
      ],
      ["MixedVersions"]
    ],
    [
      "the database is away",
      but(
        ...replicas("countersign_metrics_failures_total", "0+2x60"),
        ...replicas("countersign_worker_failures_total", "0+60x60", deadlines),
        ...replicas("countersign_worker_last_success_timestamp_seconds", "60x60", deadlines),
        ...replicas("countersign_http_requests_total", "0+600x60", {
          operation: "steps.submit",
          status: "503"
        })
      ),
      [
        "DatabaseUnavailable",
        "MetricCollectionFailing",
        "WorkerFailing",
        "ApprovalDeadlinesLate",
        "ServerErrors"
      ]
    ],
    [
      "one replica loses the database",
      but(
        series("countersign_metrics_failures_total", { instance: "a" }, "0+2x60"),
        series("countersign_metrics_failures_total", { instance: "b" }, "0x60")
      ),
      ["MetricCollectionFailing"]
    ],
    [
      "half of the shards have no owner",
      but(series("countersign_delivery_shards", { instance: "a" }, "128x60")),
      ["DeliveryShardsUnowned"]
    ],
    [
      "deliveries are late, rejected, and fail",
      but(
        ...replicas("countersign_delivery_oldest_due_seconds", "200x60", webhook),
        ...replicas("countersign_deliveries_total", "0+1x60", { ...webhook, verdict: "queue_full" }),
        ...replicas("countersign_delivery_attempts_total", "0+10x60", { ...webhook, outcome: "delivered" }),
        ...replicas("countersign_delivery_attempts_total", "0+20x60", { ...webhook, outcome: "retry" })
      ),
      ["DeliveryLate", "DeliveryQueueFull", "DeliveryAttemptsFailing"]
    ],
    [
      "few deliveries fail",
      but(...replicas("countersign_delivery_attempts_total", "0+1x60", { ...webhook, outcome: "retry" })),
      []
    ],
    [
      "the deliveries of one small receiver fail for good",
      but(
        series("countersign_deliveries_total", { instance: "a", ...webhook, verdict: "failed" }, "0x35 1x25"),
        series("countersign_delivery_cooling_destinations", { instance: "a", ...webhook }, "0x5 1x60")
      ),
      ["DeliveriesFailed", "DestinationCooling"]
    ],
    [
      "a receiver answers 410 once",
      but(
        series("countersign_deliveries_total", { instance: "b", ...webhook, verdict: "gone" }, "0x30 1x30")
      ),
      ["DeliveriesFailed"]
    ],
    [
      "the cooldowns of a receiver end, and it fails again",
      but(
        series(
          "countersign_delivery_cooling_destinations",
          { instance: "a", ...webhook },
          "1x3 0x1 1x8 0x1 1x14 0x2 1x14 0x1 1x20"
        )
      ),
      ["DestinationCooling"]
    ],
    [
      "a receiver fails for a minute, twice",
      but(
        series(
          "countersign_delivery_cooling_destinations",
          { instance: "a", ...webhook },
          "0x20 1x1 0x9 1x1 0x60"
        )
      ),
      []
    ],
    [
      "all reviewers are away, and few approvals run out",
      but(
        series("countersign_approvals_closed_total", { source: "human", outcome: "allow" }, "7x60"),
        series(
          "countersign_approvals_closed_total",
          { source: "timeout", outcome: "reject" },
          "0x9 1x9 2x9 4x40"
        ),
        ...replicas("countersign_approvals_oldest_pending_seconds", "80000+600x60")
      ),
      ["ApprovalsUndecided", "ApprovalsOld"]
    ],
    [
      "one approval runs out",
      but(
        series("countersign_approvals_closed_total", { source: "human", outcome: "allow" }, "7x60"),
        series("countersign_approvals_closed_total", { source: "timeout", outcome: "reject" }, "0x9 1x60")
      ),
      []
    ],
    [
      "an organization has almost reached what it may store",
      but(
        ...replicas("countersign_limit_use_ratio", "0x4 0.9x1 0x60", { limit: "stored_bytes" }),
        ...replicas("countersign_limit_use_ratio", "0.95x60", { limit: "key_requests" })
      ),
      ["LimitNear"]
    ],
    [
      "somebody tries keys, and the identity provider is away",
      but(
        ...replicas("countersign_authentication_refusals_total", "0+100x60", { reason: "unknown" }),
        series(
          "countersign_single_sign_on_failures_total",
          { instance: "a", reason: "provider" },
          "0x30 1x30"
        )
      ),
      ["AuthenticationRefused", "SingleSignOnFailing"]
    ],
    [
      "no backup was made for two days, and a rotation of the master key was forgotten",
      but(
        // The rules are played from the epoch on.
        ...replicas("countersign_newest_backup_timestamp_seconds", "-172800x60"),
        series("countersign_secrets_under_old_keys", { instance: "a" }, "3x60")
      ),
      ["BackupOld", "OldMasterKey"]
    ],
    [
      "the disk fills up, and replicas take most connections",
      but(
        ...replicas("countersign_store_disk_free_bytes", "1500000000x60"),
        ...replicas("countersign_store_server_connections", "95x60"),
        ...replicas("countersign_store_server_connections_max", "97x60")
      ),
      ["DiskFull", "ServerConnections"]
    ],
    [
      "the database is slow, and does not remove dead rows",
      but(
        ...replicas("countersign_store_transactions", "3x60", { state: "waiting" }),
        ...replicas("countersign_store_oldest_snapshot_seconds", "700x60"),
        ...replicas("countersign_store_xmin_age_transactions", "20000000x60")
      ),
      ["TransactionsWaiting", "LongTransaction", "VacuumBlocked"]
    ],
    [
      "replicas are overloaded",
      but(
        ...replicas("countersign_event_loop_delay_seconds", "0.5x60", { statistic: "p99" }),
        ...replicas("countersign_http_connections_refused_total", "0+5x60", { reason: "total" })
      ),
      ["EventLoopLag", "ConnectionsRefused"]
    ]
  ]

  it("accepts the alerts, and fires for each fault those that describe it, and no others", () => {
    const { err, ok, out } = testRules(faults.map((fault) => firing(...fault)))
    assert.isTrue(ok, out + err)
    // Each alert fires for some fault.
    assert.deepStrictEqual(
      [...new Set(faults.flatMap(([, , expected]) => expected))]
        .map((name) => `Countersign${name}`)
        .toSorted(),
      alerts.map(({ alert }) => alert).toSorted()
    )
  })
})
