import { assert, layer } from "@effect/vitest"
import { Array as Arr, Console, Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../../src/api/Authorization.ts"
import type { StepDecision } from "../../../../src/domain/approvals/AgentSession.ts"
import type { Decision } from "../../../../src/domain/approvals/Approval.ts"
import type { RuleEffect } from "../../../../src/domain/approvals/ApprovalRule.ts"
import {
  type ApprovalId,
  type EndpointId,
  KeyId,
  type OrgId,
  type SessionId,
  StepId
} from "../../../../src/domain/Ids.ts"
import type { Principal } from "../../../../src/domain/identity/Principal.ts"
import { Approvals } from "../../../../src/server/approvals/Approvals.ts"
import { Rules } from "../../../../src/server/approvals/Rules.ts"
import { Sessions } from "../../../../src/server/approvals/Sessions.ts"
import { Steps } from "../../../../src/server/approvals/Steps.ts"
import { textArray } from "../../../../src/server/store/pgArrays.ts"
import { Notifications } from "../../../../src/server/notifications/Notifications.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"
import { randomFrom } from "../../../support/robustness/random.ts"

/** Set it to repeat a failed run. */
const SEED = Number(process.env["COUNTERSIGN_REPLICAS_SEED"] ?? Date.now() % 1_000_000)

const OPERATIONS = 500
const CONCURRENCY = 24
const SESSIONS = 3
const STEPS = 24

/** The services of one replica. */
interface Replica {
  readonly approvals: Approvals["Service"]
  readonly notifications: Notifications["Service"]
  readonly rules: Rules["Service"]
  readonly sessions: Sessions["Service"]
  readonly steps: Steps["Service"]
}

const replica = Effect.gen(function* () {
  const services: Replica = {
    approvals: yield* Approvals,
    notifications: yield* Notifications,
    rules: yield* Rules,
    sessions: yield* Sessions,
    steps: yield* Steps
  }
  return services
})

/** Tools whose rule never changes, and `flips`, whose rule does. */
const tools = ["allowed", "waits", "flips"] as const

/** A list of rules that was written, from the start of its request to the response, by `ticks`. */
interface RuleChange {
  readonly revision: number
  readonly effect: RuleEffect
  readonly began: number
  readonly ended: number
}

/** A response to a step whose rule changes. */
interface Checked {
  readonly decision: StepDecision
  readonly began: number
  readonly ended: number
}

/** A request that was answered, by `ticks`. */
interface Answered {
  readonly began: number
  readonly ended: number
}

/** A change of an endpoint that was answered. */
interface Switched extends Answered {
  readonly active: boolean
}

/** An organization, and what its requests have returned. */
interface Team {
  readonly org_id: OrgId
  readonly agent: Principal
  readonly reviewers: Arr.NonEmptyReadonlyArray<Principal>
  readonly sessions: Arr.NonEmptyReadonlyArray<SessionId>
  /** Active and subscribed to everything, all the time. */
  readonly constant: EndpointId
  /** Enabled and disabled again and again. */
  readonly changing: EndpointId
  readonly switched: Array<Switched>
  /** When an approval was requested and decided, at most: by the type of its event and its id. */
  readonly raised: Map<string, Answered>
  readonly approvals: Array<ApprovalId>
  readonly ruleChanges: Array<RuleChange>
  readonly checked: Array<Checked>
  /** The approval of each step in the responses. */
  readonly approvalOf: Map<string, ApprovalId | null>
  /** Decisions that were accepted, by approval. */
  readonly accepted: Map<ApprovalId, Set<string>>
}

/** Order of the starts and ends of requests. */
let ticks = 0

const principal = (org_id: OrgId, name: string): Effect.Effect<Principal> =>
  Effect.map(KeyId.generate, (id) => ({
    org_id,
    actor: { id, name },
    scopes: new Set(),
    groups: [],
    keyMakers: [],
    makers: []
  }))

const listOf = (effect: RuleEffect) => ({
  rules: [
    { tool: "allowed", effect: "allow" as const },
    { tool: "waits", effect: "require_approval" as const },
    { tool: "flips", effect }
  ]
})

const replaceRules = Effect.fnUntraced(function* (team: Team, { rules }: Replica, effect: RuleEffect) {
  const began = ticks++
  const { revision } = yield* Effect.provideService(
    rules.replace(listOf(effect)),
    Authorized("rules.write"),
    team.agent
  )
  team.ruleChanges.push({ revision, effect, began, ended: ticks++ })
})

const seedTeam = Effect.fnUntraced(function* (name: string, services: Replica) {
  const sql = yield* SqlClient.SqlClient
  yield* (yield* Countersign).key({}, name)
  const [organization] = yield* sql<{
    readonly org_id: OrgId
  }>`SELECT org_id FROM organizations WHERE name = ${name}`
  if (organization === undefined) return assert.fail("the key's organization exists")
  const { org_id } = organization
  const agent = yield* principal(org_id, "agent")
  const sessions = yield* Effect.provideService(
    Effect.replicateEffect(services.sessions.create({}), SESSIONS),
    Authorized("sessions.write"),
    agent
  )
  const createEndpoint = Effect.map(
    Effect.provideService(
      services.notifications.create({ url: "http://127.0.0.1:9/hook" }),
      Authorized("org_config.write"),
      agent
    ),
    ({ endpoint }) => endpoint.id
  )
  const ids = sessions.map(({ session_id }) => session_id)
  const team: Team = {
    org_id,
    agent,
    reviewers: [yield* principal(org_id, "first reviewer"), yield* principal(org_id, "second reviewer")],
    sessions: Arr.isArrayNonEmpty(ids) ? ids : assert.fail("sessions"),
    constant: yield* createEndpoint,
    changing: yield* createEndpoint,
    switched: [{ active: true, began: -1, ended: -1 }],
    raised: new Map(),
    approvals: [],
    ruleChanges: [],
    checked: [],
    approvalOf: new Map(),
    accepted: new Map()
  }
  yield* replaceRules(team, services, "allow")
  return team
})

/**
 * Notes a request that raised an event, or was answered by what another request raised: the event is of the time that
 * all of these share.
 */
const noteRaised = ({ raised }: Team, type: string, id: ApprovalId, began: number): void => {
  const key = `${type} ${id}`
  const before = raised.get(key)
  raised.set(key, {
    began: Math.min(began, before?.began ?? began),
    ended: Math.min(ticks++, before?.ended ?? Infinity)
  })
}

/** Whether the changing endpoint was on during all of a request; undefined if it was switched meanwhile, or by concurrent requests. */
const wasOn = ({ switched }: Team, { began, ended }: Answered): boolean | undefined => {
  const before = switched.filter((change) => change.ended < began)
  const latest = Math.max(...before.map((change) => change.began))
  const states = new Set(
    switched.filter((change) => change.began < ended && change.ended >= latest).map(({ active }) => active)
  )
  const [state] = states
  return states.size === 1 ? state : undefined
}

/** Requests a step. Its name has its tool, so that every request of a step is the same. */
const check = Effect.fnUntraced(function* (
  team: Team,
  { steps }: Replica,
  session_id: SessionId,
  index: number
) {
  const tool = tools[index % tools.length] ?? "allowed"
  const step_id = StepId.make(`${tool} ${index}`)
  const began = ticks++
  const answer = yield* Effect.provideService(
    steps.check(session_id, { step_id, tool, action_class: "write", arguments: { index } }),
    Authorized("sessions.write"),
    team.agent
  )
  if (tool === "flips") team.checked.push({ decision: answer.decision, began, ended: ticks++ })
  if (tool === "allowed") assert.strictEqual(answer.decision, "allow")
  if (answer.approval_id !== null) noteRaised(team, "approval.requested", answer.approval_id, began)
  const key = `${session_id} ${step_id}`
  const before = team.approvalOf.get(key)
  if (before === undefined) {
    team.approvalOf.set(key, answer.approval_id)
    if (answer.approval_id !== null) team.approvals.push(answer.approval_id)
  } else assert.strictEqual(answer.approval_id, before)
})

const decide = Effect.fnUntraced(function* (
  team: Team,
  { approvals }: Replica,
  id: ApprovalId,
  by: Principal,
  decision: Decision
) {
  const began = ticks++
  const { status } = yield* Effect.provideService(
    approvals.decide(id, { decision }),
    Authorized("approvals.decide"),
    by
  )
  assert.notStrictEqual(by.actor.id, team.agent.actor.id, "the agent must not decide its own step")
  assert.strictEqual(status, decision === "approve" ? "approved" : "rejected")
  noteRaised(team, `approval.${status}`, id, began)
  const accepted = team.accepted.get(id) ?? new Set()
  team.accepted.set(id, accepted.add(`${by.actor.name} ${decision}`))
})

/** Switches the changing endpoint on or off. */
const switchEndpoint = Effect.fnUntraced(function* (team: Team, { notifications }: Replica, active: boolean) {
  const began = ticks++
  yield* Effect.provideService(
    notifications.update(team.changing, { active }),
    Authorized("org_config.write"),
    team.agent
  )
  team.switched.push({ active, began, ended: ticks++ })
})

/** Refusals that an operation may get; any other failure fails the test. */
const refusals = new Set([
  "APPROVAL_ALREADY_DECIDED",
  "APPROVAL_EXPIRED",
  "SELF_APPROVAL",
  "STEP_NOT_ALLOWED",
  "STEP_ALREADY_COMPLETED",
  "SESSION_CLOSED",
  "NOT_FOUND"
])

/** The effects that the rule of `flips` may have had during a request. */
const effectsDuring = ({ ruleChanges }: Team, { began, ended }: Checked): ReadonlySet<RuleEffect> => {
  const before = Math.max(
    ...ruleChanges.filter((change) => change.ended < began).map(({ revision }) => revision)
  )
  return new Set(
    ruleChanges
      .filter((change) => change.revision >= before && change.began < ended)
      .map(({ effect }) => effect)
  )
}

layer(layerTwoReplicas, { excludeTestServices: true })("SessionWriter › two replicas", (it) => {
  it.effect(
    "random concurrent requests of two replicas keep every guarantee of steps, approvals, events and deliveries",
    () =>
      Effect.gen(function* () {
        yield* Console.log(`COUNTERSIGN_REPLICAS_SEED=${SEED}`)
        const random = randomFrom(SEED)
        const sql = yield* SqlClient.SqlClient
        const replicas = [
          yield* replica,
          yield* Effect.provideContext(replica, yield* SecondReplica)
        ] as const
        const teams = [
          yield* seedTeam("first team", replicas[0]),
          yield* seedTeam("second team", replicas[1])
        ] as const

        /** Events of a session are numbered in commit order exactly if every read sees them without gaps. */
        const readEvents = Effect.gen(function* () {
          const gaps = yield* sql`
            SELECT session_id
            FROM session_events
            GROUP BY org_id, session_id
            HAVING min(number) <> 1 OR max(number) <> count(*)
          `
          assert.deepStrictEqual(gaps, [])
        })

        const operation = (index: number): Effect.Effect<unknown, unknown> => {
          const team = random.pick(teams)
          const services = random.pick(replicas)
          const other = services === replicas[0] ? replicas[1] : replicas[0]
          const session_id = random.pick(team.sessions)
          const step = random.below(STEPS)
          const kind = random.below(100)
          const approval = random.next()
          if (kind < 45) return check(team, services, session_id, step)
          if (kind < 68) {
            const by = random.chance(0.1) ? team.agent : random.pick(team.reviewers)
            const decision = random.chance(0.5) ? "approve" : "reject"
            return Effect.suspend(() => {
              // Mostly a recent one, which others decide and resume now.
              const recent = team.approvals.slice(-6)
              const id = recent[Math.floor(approval * recent.length)]
              return id === undefined ? Effect.void : decide(team, services, id, by, decision)
            })
          }
          if (kind < 80) {
            const tool = tools[step % tools.length] ?? "allowed"
            return Effect.provideService(
              services.steps.complete(session_id, StepId.make(`${tool} ${step}`), {
                status: "succeeded",
                result: { step }
              }),
              Authorized("sessions.write"),
              team.agent
            )
          }
          if (kind < 86) {
            const effect = random.chance(0.6) ? "reject" : random.pick(["allow", "require_approval"] as const)
            // Also resumed or requested at once by the other replica, which has the rules before in its cache.
            return Effect.andThen(
              replaceRules(team, services, effect),
              check(team, other, session_id, 2 + 3 * random.below(STEPS / 3))
            )
          }
          if (kind < 91) {
            // In turns, so that it is on and off for long enough. `suspend`, because it depends on the switch before.
            return Effect.suspend(() =>
              switchEndpoint(team, services, team.switched.at(-1)?.active === false)
            )
          }
          if (kind < 93) {
            // Of another organization: never found, whatever a replica has cached.
            const stranger = team === teams[0] ? teams[1] : teams[0]
            return Effect.map(
              Effect.result(
                Effect.provideService(
                  services.steps.check(session_id, {
                    step_id: StepId.make("allowed 0"),
                    tool: "allowed",
                    action_class: "write"
                  }),
                  Authorized("sessions.write"),
                  stranger.agent
                )
              ),
              (result) => assert.isTrue(Result.isFailure(result) && result.failure._tag === "NOT_FOUND")
            )
          }
          // The last session of each team is closed late, while its steps and approvals are still requested and decided.
          if (kind < 95 && index > OPERATIONS * 0.7) {
            return Effect.provideService(
              services.sessions.close(team.sessions.at(-1) ?? session_id),
              Authorized("sessions.write"),
              team.agent
            )
          }
          return readEvents
        }

        yield* Effect.forEach(
          Arr.makeBy(OPERATIONS, operation),
          (one) =>
            one.pipe(
              Effect.catch((error) => {
                const tag =
                  typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : ""
                return refusals.has(tag) ? Effect.void : Effect.die(error)
              })
            ),
          { concurrency: CONCURRENCY, discard: true }
        )

        // However the random requests met: each replica raises events while the endpoint is surely on, and surely off.
        let settled = STEPS + tools.indexOf("waits")
        for (const team of teams) {
          for (const active of [true, false]) {
            yield* switchEndpoint(team, replicas[0], active)
            for (const services of replicas) {
              yield* check(team, services, team.sessions[0], settled)
              settled += tools.length
            }
          }
        }

        yield* readEvents
        assert.deepStrictEqual(
          yield* sql`
            SELECT s.session_id
            FROM agent_sessions s
              LEFT JOIN session_events e USING (org_id, session_id)
            GROUP BY s.org_id, s.session_id, s.last_event
            HAVING count(e.number) <> s.last_event OR bool_or((e.data->>'id')::bigint <> e.number)
          `,
          [],
          "a session has the events 1 to last_event, and each has its number as its id"
        )
        assert.deepStrictEqual(
          yield* sql`
            SELECT s.step_id, s.decision, s.last_decision, s.approval_id, g.decisions, g.requested, g.decided, g.outcomes
            FROM governed_steps s
              CROSS JOIN LATERAL (
                SELECT
                  array_agg(e.data->>'decision' ORDER BY e.number) FILTER (WHERE e.type = 'step:governed') AS decisions,
                  count(*) FILTER (WHERE e.type = 'approval:requested') AS requested,
                  count(*) FILTER (WHERE e.type = 'approval:decided') AS decided,
                  count(*) FILTER (WHERE e.type = 'tool:outcome') AS outcomes
                FROM session_events e
                WHERE e.org_id = s.org_id AND e.session_id = s.session_id AND e.step_id = s.step_id
              ) g
              LEFT JOIN approvals a ON a.org_id = s.org_id AND a.session_id = s.session_id AND a.step_id = s.step_id
            WHERE g.decisions[1] IS DISTINCT FROM s.decision
              OR g.decisions[cardinality(g.decisions)] IS DISTINCT FROM coalesce(s.last_decision, s.decision)
              OR EXISTS (
                SELECT FROM generate_series(2, cardinality(g.decisions)) AS i WHERE g.decisions[i] = g.decisions[i - 1]
              )
              OR g.outcomes <> (s.outcome_at IS NOT NULL)::int
              OR a.approval_id IS DISTINCT FROM s.approval_id
              OR g.requested <> (a.approval_id IS NOT NULL)::int
              OR g.decided <> (a.status IS NOT NULL AND a.status <> 'pending')::int
          `,
          [],
          "a step has one event for each change of its decision, and one for its request, decision and outcome"
        )
        assert.deepStrictEqual(
          yield* sql`SELECT DISTINCT step_id FROM session_events e WHERE step_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM governed_steps s
            WHERE s.org_id = e.org_id AND s.session_id = e.session_id AND s.step_id = e.step_id
          )`,
          [],
          "an event is of a step of its session"
        )
        assert.deepStrictEqual(
          yield* sql`
            SELECT a.approval_id, a.status, l.actions, v.types
            FROM approvals a
              CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(action), '{}') AS actions
                FROM audit_log
                WHERE org_id = a.org_id AND target_id = a.approval_id
              ) l
              CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(type ORDER BY type <> 'approval.requested'), '{}') AS types
                FROM approval_events
                WHERE org_id = a.org_id AND approval_id = a.approval_id
              ) v
            WHERE l.actions <> CASE WHEN a.status IN ('approved', 'rejected') THEN ARRAY['approval.' || a.status] ELSE '{}' END
              OR v.types <> ARRAY['approval.requested'] || CASE WHEN a.status = 'pending' THEN '{}' ELSE ARRAY['approval.' || a.status] END
          `,
          [],
          "an approval has one webhook event for its request and one for its end, and one audit entry if a person decided"
        )
        assert.deepStrictEqual(
          yield* sql`
            SELECT e.event_id, d.to_constant, d.to_changing, d.to_others
            FROM approval_events e
              JOIN unnest(
                ${textArray(teams.map(({ org_id }) => org_id))}::text[],
                ${textArray(teams.map(({ constant }) => constant))}::text[],
                ${textArray(teams.map(({ changing }) => changing))}::text[]
              ) AS team (org_id, constant, changing) ON team.org_id = e.org_id
              CROSS JOIN LATERAL (
                SELECT
                  count(*) FILTER (WHERE destination_id = team.constant) AS to_constant,
                  count(*) FILTER (WHERE destination_id = team.changing) AS to_changing,
                  count(*) FILTER (WHERE org_id <> team.org_id OR destination_id NOT IN (team.constant, team.changing)) AS to_others
                FROM deliveries
                WHERE event_id = e.event_id
              ) d
            WHERE d.to_constant <> 1
              OR d.to_changing > 1
              OR d.to_others > 0
          `,
          [],
          "an event has one delivery for each endpoint that subscribes to it, of its organization only"
        )
        let on = 0
        let off = 0
        for (const team of teams) {
          const events = yield* sql<{ readonly raised: string; readonly deliveries: number }>`
            SELECT e.type || ' ' || e.approval_id AS raised, count(d.delivery_id)::int AS deliveries
            FROM approval_events e
              LEFT JOIN deliveries d ON d.event_id = e.event_id AND d.destination_id = ${team.changing}
            WHERE e.org_id = ${team.org_id}
            GROUP BY e.event_id, e.type, e.approval_id
          `
          for (const { deliveries, raised } of events) {
            const request = team.raised.get(raised)
            // Of no request: the approval was closed with its session.
            const expected = request === undefined ? undefined : wasOn(team, request)
            if (expected === undefined) continue
            assert.strictEqual(
              deliveries,
              expected ? 1 : 0,
              `${raised} is delivered only if the endpoint is on`
            )
            if (expected) on++
            else off++
          }
        }
        assert.isAbove(on, 0, "events of an endpoint that is on")
        assert.isAbove(off, 0, "events of an endpoint that is off")
        assert.deepStrictEqual(
          yield* sql`
            SELECT d.delivery_id, q.delivery_id AS queued, d.status
            FROM deliveries d
              FULL JOIN delivery_queue q ON q.org_id = d.org_id AND q.delivery_id = d.delivery_id
            WHERE d.delivery_id IS NULL
              OR (d.status = 'pending') <> (q.delivery_id IS NOT NULL)
          `,
          [],
          "exactly the pending deliveries are queued"
        )
        for (const team of teams) {
          const decided = yield* sql<{ readonly approval_id: ApprovalId; readonly decided: string }>`
            SELECT approval_id, decided_by_name || CASE status WHEN 'approved' THEN ' approve' ELSE ' reject' END AS decided
            FROM approvals
            WHERE org_id = ${team.org_id} AND decision_source = 'human'
            ORDER BY approval_id
          `
          assert.deepStrictEqual(
            decided.map((row) => [row.approval_id, row.decided]),
            [...team.accepted].map(([id, by]) => [id, [...by].join()]).toSorted(),
            "the accepted decision of an approval is the one that is stored"
          )
          for (const one of team.checked) {
            const effects = effectsDuring(team, one)
            if (effects.size === 1 && effects.has("reject")) assert.strictEqual(one.decision, "reject")
          }
        }
      }),
    { timeout: 120_000 }
  )
})
