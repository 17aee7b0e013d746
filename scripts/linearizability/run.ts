/**
 * Clients use several replicas concurrently while replicas are killed and frozen, connections break, and the database
 * restarts. Every call is recorded with its answer; at the end the history of each object is checked, and each stream
 * against the log of its session.
 */
import { Effect, Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { connect, type NewApiKey } from "../../src/client/connect/index.ts"
import * as ApiKeyFormat from "../../src/domain/identity/ApiKeyFormat.ts"
import { seededRandom } from "../../test/support/breakingProxy.ts"
import { persistently } from "../chaos/persistently.ts"
import { startDatabase } from "../chaos/store.ts"
import { checkObject, type ObjectReport } from "./check.ts"
import { causeFaults, type Fault, noFaults } from "./faults.ts"
import { auditKey, type FinalState, readFinalState, REPLICA_CONNECTION } from "./finalState.ts"
import { budgetModel } from "./models/budgetModel.ts"
import { type DatasetCall, datasetAnswers, datasetModel } from "./models/datasetModel.ts"
import { createdAnswer, type Created, keyModel } from "./models/keyModel.ts"
import { type RulesCall, rulesModel, type RulesState } from "./models/rulesModel.ts"
import { latenessOf, operationsByTime, sessionModel } from "./models/sessionModel.ts"
import type { Operation } from "./Operation.ts"
import { makeRecorder, type Recorder } from "./record.ts"
import { makeReplica, type Replica } from "./replicas.ts"
import { type BudgetHistory, budgetLimits, runBudget } from "./workload/budgets.ts"
import type { KeyHistory } from "./workload/creation.ts"
import { type DatasetHistory, runDataset } from "./workload/datasets.ts"
import { changeRules, markedRules, rulesState } from "./workload/rules.ts"
import { runSession, type SessionHistory } from "./workload/sessions.ts"
import { makeWorld, type People, type Person, type World } from "./workload/World.ts"

export interface RunOptions {
  /** The bundled service. */
  readonly entry: string
  readonly dataDir: string
  /** How long operations begin and faults happen. */
  readonly seconds: number
  readonly seed: number
  readonly replicas?: number
  /** Sessions in use at a time, datasets, and accounts with a budget. */
  readonly sessions?: number
  readonly budgets?: number
  readonly datasets?: number
  /** Whether replicas are killed and frozen. Default true. */
  readonly causesFaults?: boolean
  readonly progress?: (line: string) => void
}

export interface RunReport {
  readonly faults: Readonly<Record<Fault, number>>
  /** The time of the operations, and of checking them. */
  readonly seconds: number
  readonly checkSeconds: number
  readonly objects: ReadonlyArray<ObjectReport>
  readonly answers: Readonly<Record<string, number>>
  readonly streams: {
    readonly events: number
    readonly connections: number
    /** Streams that differ from the logs of their sessions, a sentence each. */
    readonly faults: ReadonlyArray<string>
  }
  /** Counter-proposals that were made, and steps that they allowed. */
  readonly proposals: { readonly made: number; readonly used: number }
  /** How late the windows of approvals ended, in milliseconds, earliest first. Negative: too early. */
  readonly lateness: ReadonlyArray<number>
  /** Effects that are recorded twice or not at all in another place, a sentence each. */
  readonly wrongRecords: ReadonlyArray<string>
}

const REPLICAS = 3
const SESSIONS = 6
const DATASETS = 2
const BUDGETS = 2

/** Runs the service and its clients, and checks what they recorded. */
export const runLinearizability = Effect.fnUntraced(function* (options: RunOptions) {
  const database = yield* startDatabase({ dataDir: options.dataDir, sync: false })
  const run = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { key } = yield* ApiKeyFormat.generateApiKey
    const environment = {
      DATABASE_URL: Redacted.value(database.url),
      COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
      COUNTERSIGN_ADMIN_KEY: Redacted.value(key),
      COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
      COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "0"
    }
    const replicas = yield* startReplicas(options.entry, environment, options.replicas ?? REPLICAS)
    const { initialRules, people } = yield* Effect.promise(() => prepare(replicas, Redacted.value(key)))
    options.progress?.(`${replicas.length} replicas are ready`)

    const random = seededRandom(options.seed)
    const began = performance.now()
    const isOver = () => performance.now() - began >= options.seconds * 1_000
    const world = makeWorld({ replicas, people, random: seededRandom(options.seed + 1), isOver })
    const faultyDatabase = {
      restart: () => Effect.runSync(database.restart),
      breakConnections: () => Effect.runPromise(terminateBackends(sql))
    }
    const faults =
      options.causesFaults === false
        ? Promise.resolve(noFaults)
        : causeFaults(replicas, faultyDatabase, random, isOver)
    const rules = makeRecorder<RulesCall>(world.counts)
    const histories = yield* Effect.promise(async () => {
      const [sessions, datasets, budgets] = await Promise.all([
        inLanes(options.sessions ?? SESSIONS, isOver, () => runSession(world)),
        inLanes(options.datasets ?? DATASETS, isOver, () => runDataset(world)),
        inLanes(options.budgets ?? BUDGETS, isOver, () => runBudget(world)),
        changeRules(world, "first administrator", rules),
        changeRules(world, "second administrator", rules)
      ])
      return { sessions, datasets, budgets, faults: await faults }
    })
    const seconds = (performance.now() - began) / 1_000
    options.progress?.(`${count(world)} calls in ${seconds.toFixed(0)} s; checking them`)
    yield* Effect.promise(() => Promise.all(replicas.map((replica) => replica.remove())))
    const final = yield* readFinalState
    const checkBegan = performance.now()
    const objects = checkAll(histories, { initial: initialRules, recorder: rules }, final)
    const report: RunReport = {
      faults: histories.faults,
      seconds,
      checkSeconds: (performance.now() - checkBegan) / 1_000,
      objects,
      answers: Object.fromEntries([...world.counts].toSorted()),
      streams: checkStreams(histories.sessions, final),
      proposals: countProposals(final),
      lateness: histories.sessions
        .flatMap(({ session_id, steps }) => latenessOf(logOf(session_id, final), expiringSecondsOf(steps)))
        .toSorted((a, b) => a - b),
      wrongRecords: [...checkExamples(final), ...checkAudit(final)]
    }
    return report
  })
  return yield* Effect.provide(run, database.layer)
})

const terminateBackends = (sql: SqlClient.SqlClient) =>
  Effect.asVoid(
    persistently(sql`
      SELECT pg_terminate_backend(pid)
      FROM pg_stat_activity
      WHERE datname = current_database()
        AND application_name ~ ${REPLICA_CONNECTION}
        AND application_name <> current_setting('application_name')
    `)
  )

const count = ({ counts }: World): number => [...counts.values()].reduce((sum, one) => sum + one, 0)

/** Starts replicas, the first of them alone: it creates the organization. They are killed when the scope closes. */
const startReplicas = (
  entry: string,
  environment: Readonly<Record<string, string>>,
  number: number
): Effect.Effect<ReadonlyArray<Replica>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const replicas = yield* Effect.acquireRelease(
      Effect.promise(() =>
        Promise.all(Array.from({ length: number }, () => makeReplica(entry, environment)))
      ),
      (list) => Effect.promise(() => Promise.all(list.map((replica) => replica.remove())))
    )
    yield* Effect.promise(async () => {
      const [first, ...others] = replicas
      await first?.start()
      await Promise.all(others.map((replica) => replica.start()))
    })
    return replicas
  })

/** Creates the keys of the people, and the rules. */
const prepare = async (
  [first]: ReadonlyArray<Replica>,
  adminKey: string
): Promise<{ readonly people: People; readonly initialRules: RulesState }> => {
  if (first === undefined) throw new Error("A run needs a replica")
  const client = connect({ url: first.url, key: adminKey })
  const create = async (name: string, scopes: NewApiKey["scopes"]): Promise<Person> => {
    const { key, secret } = await client.apiKeys.create({ payload: { name, scopes } })
    return { id: key.id, key: secret, isAdmin: false }
  }
  const reviewer: NewApiKey["scopes"] = [
    "feedback.read",
    "feedback.write",
    "sessions.read",
    "approvals.read",
    "approvals.decide"
  ]
  const [admin] = (await client.apiKeys.list()).keys
  if (admin === undefined) throw new Error("The administrator's key must exist")
  const people = {
    admin: { id: admin.id, key: adminKey, isAdmin: true },
    // It may decide, so that what refuses its own decisions is that it has requested the step.
    agent: await create("agent", ["sessions.read", "sessions.write", "approvals.read", "approvals.decide"]),
    reviewers: [await create("first reviewer", reviewer), await create("second reviewer", reviewer)] as const
  }
  const rules = await client.approvalRules.replace({ payload: { rules: markedRules("start") } })
  return { people, initialRules: rulesState(rules) }
}

/** Runs one round after the other, in several lanes, until the run is over. */
const inLanes = async <A>(
  lanes: number,
  isOver: () => boolean,
  round: () => Promise<A>
): Promise<Array<A>> => {
  const results: Array<A> = []
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (!isOver()) results.push(await round())
    })
  )
  return results
}

interface Histories {
  readonly sessions: ReadonlyArray<SessionHistory>
  readonly datasets: ReadonlyArray<DatasetHistory>
  readonly budgets: ReadonlyArray<BudgetHistory>
}

/** The time on the monotonic clock of a time of the wall clock. */
const toMonotonic = (epochMillis: number): number => epochMillis - performance.timeOrigin

const checkAll = (
  { budgets, datasets, sessions }: Histories,
  rules: { readonly initial: RulesState; readonly recorder: Recorder<RulesCall> },
  final: FinalState
): ReadonlyArray<ObjectReport> => [
  ...sessions.map((history) => checkSession(history, final)),
  ...sessions.map(({ key }) => checkKey(key, final.sessions.get(key.key) ?? [])),
  ...datasets.map((history) => checkDataset(history, final)),
  ...datasets.flatMap(({ keys }) =>
    [...keys].map(([trace_id, key]) => checkKey(key, final.feedback.get(trace_id) ?? []))
  ),
  ...budgets.map(({ account, recorder }) =>
    checkObject(`budget of ${account}`, budgetModel(budgetLimits), recorder.operations)
  ),
  checkObject("rules", rulesModel(rules.initial), rules.recorder.operations)
]

/** An operation that reads the final state. */
const atTheEnd = <Call>(call: Call, answer: string): Operation<Call> => ({
  client: "end",
  call,
  answer,
  invokedAt: performance.now(),
  answeredAt: performance.now()
})

const logOf = (session_id: string, { logs }: FinalState) =>
  (logs.get(session_id) ?? []).map(({ event }) => event)

const expiringSecondsOf = (steps: SessionHistory["steps"]) => (step: string) =>
  steps.get(step)?.expiringSeconds ?? null

const checkSession = ({ recorder, session_id, steps }: SessionHistory, final: FinalState): ObjectReport => {
  const log = logOf(session_id, final)
  return checkObject(`session ${session_id}`, sessionModel(log, final.proposals), [
    ...recorder.operations,
    ...operationsByTime(log, expiringSecondsOf(steps), toMonotonic),
    atTheEnd({ kind: "read the log" }, "read")
  ])
}

const checkKey = ({ key, recorder }: KeyHistory, effects: ReadonlyArray<Created>): ObjectReport =>
  checkObject(`key ${key}`, keyModel(effects), [
    ...recorder.operations,
    atTheEnd({ kind: "list the created" }, createdAnswer(effects))
  ])

const checkDataset = (
  { feedback, first, recorder, task_id }: DatasetHistory,
  final: FinalState
): ObjectReport => {
  const versions = final.versions.get(task_id) ?? []
  const initial = versions.find(({ id }) => id === first) ?? null
  return checkObject(`dataset of ${task_id}`, datasetModel(initial, feedback, versions), [
    ...recorder.operations,
    atTheEnd<DatasetCall>(
      { kind: "list versions" },
      datasetAnswers.versions(versions.map(({ id }) => id).toReversed())
    ),
    ...feedback.map((id) => {
      const { dataset_id, status } = final.statuses.get(id) ?? { status: "missing", dataset_id: null }
      return atTheEnd<DatasetCall>({ kind: "get", feedback: id }, datasetAnswers.status(status, dataset_id))
    })
  ])
}

const countProposals = ({ logs, proposals }: FinalState): RunReport["proposals"] => {
  const used = [...logs.values()].flatMap((log) => {
    const governed = log.flatMap(({ event }) => (event.type === "step:governed" ? [event] : []))
    const waited = new Set(
      governed.flatMap(({ decision, step_id }) => (decision === "pending" ? [step_id] : []))
    )
    return governed.filter(
      ({ approval_id, decision, step_id }) =>
        decision === "allow" && approval_id !== null && !waited.has(step_id)
    )
  })
  return { made: proposals.size, used: used.length }
}

/** Compares what each stream received with the log of its session. */
const checkStreams = (
  sessions: ReadonlyArray<SessionHistory>,
  { logs }: FinalState
): RunReport["streams"] => {
  const faults = sessions.flatMap(({ received, session_id }) => {
    const log = (logs.get(session_id) ?? []).map(({ data }) => data)
    const differs =
      log.length !== received.events.length || log.some((data, index) => data !== received.events[index])
    return [
      ...received.faults.map((fault) => `session ${session_id}: ${fault}`),
      ...(differs
        ? [
            `session ${session_id}: ${received.events.length} events were received, ${log.length} are in the log`
          ]
        : [])
    ]
  })
  const sum = (of: (history: SessionHistory) => number) =>
    sessions.reduce((total, history) => total + of(history), 0)
  return {
    events: sum(({ received }) => received.events.length),
    connections: sum(({ received }) => received.connections),
    faults
  }
}

/** A promoted correction is one example, and no other is. */
const checkExamples = ({ examples, statuses }: FinalState): ReadonlyArray<string> =>
  [...statuses].flatMap(([id, { status }]) => {
    const expected = status === "promoted" ? 1 : 0
    const found = examples.get(id) ?? 0
    return found === expected ? [] : [`${id} is ${status} and became ${found} examples`]
  })

/** The actions that the audit log must have exactly one entry of, and no others of their kinds. */
const AUDITED = /^(approval\.(approved|rejected)|session\.closed|feedback\.promoted) /

/** Each decision by a person, close and promotion has exactly one entry in the audit log. */
const checkAudit = ({ audit, logs, versions }: FinalState): ReadonlyArray<string> => {
  const events = [...logs.values()].flat().map(({ event }) => event)
  const expected = new Set([
    ...events.flatMap((event) => {
      if (event.type === "session:closed") return [auditKey("session.closed", event.session_id)]
      if (event.type !== "approval:decided" || event.approval.decision_source !== "human") return []
      return [auditKey(`approval.${event.approval.status}`, event.approval.approval_id)]
    }),
    ...[...versions.values()]
      .flat()
      .flatMap(({ base, id }) => (base === null ? [] : [auditKey("feedback.promoted", id)]))
  ])
  return [...new Set([...expected, ...[...audit.keys()].filter((key) => AUDITED.test(key))])].flatMap(
    (key) => {
      const found = audit.get(key) ?? 0
      return found === (expected.has(key) ? 1 : 0) ? [] : [`the audit log has ${found} entries of ${key}`]
    }
  )
}
