/* oxlint-disable no-unmodified-loop-condition -- events of the simulation end these loops */
/** The services of approvals over PostgreSQL and over the model, with one interface for both. */
import { PgClient } from "@effect/sql-pg"
import { type Clock, type Context, Deferred, Effect, Exit, Fiber, Layer, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { CurrentPrincipal } from "../../../src/api/Authorization.ts"
import { approvalEventTypes } from "../../../src/domain/approvals/ApprovalEvent.ts"
import type { ApprovalId, OrgId, SessionId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import type { Approvals } from "../../../src/server/approvals/Approvals.ts"
import type { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import type { Rules } from "../../../src/server/approvals/Rules.ts"
import type { Sessions } from "../../../src/server/approvals/Sessions.ts"
import { SessionSignals } from "../../../src/server/approvals/SessionSignals.ts"
import type { Steps } from "../../../src/server/approvals/Steps.ts"
import { lockApprovalForUpdate } from "../../../src/server/approvals/approvalRows.ts"
import { lockSessionForUpdate } from "../../../src/server/approvals/Sessions/rows.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Host } from "../../../scripts/simulate/core/Host.ts"
import { Notifications } from "../../../scripts/simulate/core/Notifications.ts"
import { Simulation } from "../../../scripts/simulate/core/Simulation.ts"
import { Store } from "../../../scripts/simulate/core/Store.ts"
import { StoreClient, StoreNetwork } from "../../../scripts/simulate/core/StoreClient.ts"
import { ApprovalModel } from "../../../scripts/simulate/approvals/ApprovalModel.ts"
import { makeModelClient } from "../../../scripts/simulate/approvals/ModelClient.ts"
import { layerClient, layerServices } from "../../../scripts/simulate/approvals/services.ts"
import type { TestDatabase } from "../../support/postgres.ts"
import { observeLockWaits } from "./observeLockWaits.ts"

/** Approvals that one transaction of the deadline worker transitions: few, so that there are several. */
const DEADLINE_BATCH = 2

/** The services that requests use. */
export type Services = Approvals | Deadlines | Rules | Sessions | Steps | StoreClock | SqlClient.SqlClient

/** A row that an open transaction holds. */
export type Blocker =
  | { readonly _tag: "Session"; readonly org_id: OrgId; readonly session_id: SessionId }
  | { readonly _tag: "Approval"; readonly org_id: OrgId; readonly approval_id: ApprovalId }

/** An effect that has begun. */
export interface Started<A> {
  /** Whether it waits for the open transaction. */
  readonly isWaiting: boolean
  readonly exit: Effect.Effect<Exit.Exit<A, unknown>>
}

/** The services over one store. */
export interface Subject {
  /** Begins a request, and lets it go on until it has ended or waits for the open transaction. */
  readonly start: <A, E>(
    principal: Principal,
    effect: Effect.Effect<A, E, Services | CurrentPrincipal>
  ) => Effect.Effect<Started<A>>
  /** Opens a transaction that holds a row until it ends. */
  readonly open: (blocker: Blocker) => Effect.Effect<{ readonly end: Effect.Effect<void> }>
  readonly setEndpoint: (org_id: OrgId, endpoint_id: string, active: boolean) => Effect.Effect<void>
  /** The rows of all tables, with ids. */
  readonly dump: Effect.Effect<ReadonlyArray<string>, SqlError.SqlError>
  /** Moves the time of the service. */
  readonly advance: (millis: number) => void
}

/** A clock that stands still unless it is moved. */
const makeClock = () => {
  let now = Date.UTC(2026, 0, 1)
  const nanos = () => BigInt(now) * 1_000_000n
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: () => now,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: () => Effect.never
  }
  return {
    clock,
    advance: (millis: number) => {
      now += millis
    }
  }
}

const layerOf = (clock: Clock.Clock) =>
  layerServices({ deadlineBatch: DEADLINE_BATCH, enqueued: () => {} }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        StoreClock.layerOf(clock),
        Layer.mock(SessionSignals, { publish: () => Effect.void, subscribe: () => Effect.void })
      )
    )
  )

/** Locks a row, as the service does. */
const hold = (sql: SqlClient.SqlClient, blocker: Blocker) =>
  blocker._tag === "Session"
    ? Effect.asVoid(lockSessionForUpdate(sql, blocker.org_id, blocker.session_id))
    : Effect.asVoid(lockApprovalForUpdate(sql, blocker.org_id, blocker.approval_id))

/** Stores a key that can decide. The model has none: every key of it can. */
const addKey = (
  sql: SqlClient.SqlClient,
  {
    actor,
    org_id
  }: { readonly org_id: string; readonly actor: { readonly id: string; readonly name: string } }
) =>
  Effect.orDie(
    Effect.andThen(
      sql`INSERT INTO organizations VALUES (${org_id}, ${org_id}, now()) ON CONFLICT DO NOTHING`,
      sql`
        INSERT INTO api_keys (org_id, key_id, public_id, digest, name, preset, created_at)
        VALUES (${org_id}, ${actor.id}, ${actor.id}, '', ${actor.name}, 'admin', now())
        ON CONFLICT DO NOTHING
      `
    )
  )

/** PostgreSQL, emptied. */
export const makeSqlSubject: Effect.Effect<
  Subject,
  SqlError.SqlError,
  TestDatabase | SqlClient.SqlClient | PgClient.PgClient | Scope.Scope
> = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  const isWaiting = yield* observeLockWaits
  const { advance, clock } = makeClock()
  for (const table of [
    "session_events",
    "approvals",
    "governed_steps",
    "agent_sessions",
    "approval_rules",
    "approval_events",
    "notification_endpoints",
    "delivery_queue",
    "deliveries"
  ]) {
    yield* sql`DELETE FROM ${sql.literal(table)}`
  }
  const [last] = yield* sql<{
    readonly entry_id: string
  }>`SELECT coalesce(max(entry_id), '') AS entry_id FROM audit_log`
  const services = yield* Layer.build(layerOf(clock).pipe(Layer.provideMerge(layerClient(sql))))
  const withSql = <A, E>(effect: Effect.Effect<A, E, SqlClient.SqlClient>) =>
    Effect.provideService(effect, SqlClient.SqlClient, sql)
  const added = new Set<string>()
  return {
    advance,
    start: (principal, effect) =>
      Effect.gen(function* () {
        if (!added.has(principal.actor.id)) yield* addKey(sql, principal)
        added.add(principal.actor.id)
        const fiber = yield* Effect.forkDetach(
          effect.pipe(Effect.provideService(CurrentPrincipal, principal), Effect.provideContext(services))
        )
        while (fiber.pollUnsafe() === undefined) {
          if (yield* isWaiting) break
        }
        return { exit: Fiber.await(fiber), isWaiting: fiber.pollUnsafe() === undefined }
      }),
    open: (blocker) =>
      Effect.gen(function* () {
        const began = yield* Deferred.make<void>()
        const ended = yield* Deferred.make<void>()
        const fiber = yield* Effect.forkDetach(
          withSql(
            transaction(
              Effect.gen(function* () {
                yield* hold(sql, blocker)
                yield* Deferred.succeed(began, undefined)
                yield* Deferred.await(ended)
              })
            )
          )
        )
        yield* Deferred.await(began)
        return { end: Effect.andThen(Deferred.succeed(ended, undefined), Effect.asVoid(Fiber.await(fiber))) }
      }),
    setEndpoint: (org_id, endpoint_id, active) =>
      Effect.orDie(
        Effect.asVoid(sql`
          INSERT INTO notification_endpoints (
            org_id, endpoint_id, url, url_hint, secret, events, active, created_at, created_by_id, created_by_name
          )
          VALUES (${org_id}, ${endpoint_id}, '', '', '', ${[...approvalEventTypes]}, ${active}, now(), '', '')
          ON CONFLICT (org_id, endpoint_id) DO UPDATE SET active = ${active}
        `)
      ),
    dump: Effect.gen(function* () {
      const rows = yield* sql<{ readonly line: string }>`
        SELECT concat_ws(' ', 'session', session_id, closed_at IS NOT NULL, last_event, (extract(epoch FROM proposals_until) * 1000)::bigint) AS line FROM agent_sessions
        UNION ALL
        SELECT concat_ws(' ', 'step', session_id, step_id, decision, last_decision, outcome_status, outcome_at IS NOT NULL, approval_id, proposal_approval_id)
        FROM governed_steps
        UNION ALL
        SELECT concat_ws(' ', 'approval', approval_id, status, stage, outcome, decision_source, decided_by_id, expiring_notified,
          (extract(epoch FROM expires_at) * 1000)::bigint, (extract(epoch FROM next_due_at) * 1000)::bigint,
          (extract(epoch FROM decided_at) * 1000)::bigint, (extract(epoch FROM escalated_at) * 1000)::bigint,
          proposed_arguments, proposed_digest, proposed_by, (extract(epoch FROM proposal_expires_at) * 1000)::bigint, proposal_step_id,
          arguments_bytes)
        FROM approvals
        UNION ALL
        SELECT concat_ws(' ', 'event', session_id, number, type, step_id, data) FROM session_events
        UNION ALL
        SELECT concat_ws(' ', 'notification', type, approval_id) FROM approval_events
        UNION ALL
        SELECT concat_ws(' ', 'delivery', destination_id, label) FROM delivery_queue JOIN deliveries USING (org_id, destination_id, delivery_id)
        UNION ALL
        SELECT concat_ws(' ', 'audit', action, target_id, actor_id) FROM audit_log WHERE entry_id > ${last?.entry_id ?? ""}
        UNION ALL
        SELECT concat_ws(' ', 'rules', org_id, revision) FROM approval_rules
      `
      return rows.map(({ line }) => line)
    })
  }
})

/** Joins what is not null, as `concat_ws` does; booleans as `t` and `f`. */
const line = (...parts: ReadonlyArray<string | number | boolean | null>): string =>
  parts
    .filter((part) => part !== null)
    .map((part) => (typeof part === "boolean" ? (part ? "t" : "f") : String(part)))
    .join(" ")

/** The model of the simulation. */
export const makeModelSubject: Effect.Effect<Subject> = Effect.sync(() => {
  const simulation = new Simulation("contract")
  const host = new Host(simulation, "contract", 2_048)
  const store = new Store(simulation)
  const network = new StoreNetwork(store)
  const model = new ApprovalModel(store)
  const client = new StoreClient(host, network, { connections: 8, lockMillis: 0 })
  const { advance, clock } = makeClock()
  /** Lets the simulation go on until an effect has ended. */
  const toEnd = <A, E>(fiber: Fiber.Fiber<A, E>) =>
    Effect.sync((): Exit.Exit<A, E> => {
      let exit: Exit.Exit<A, E> | undefined
      fiber.addObserver((ended) => {
        exit = ended
      })
      while (exit === undefined && simulation.step());
      return exit ?? Exit.die(new Error("It does not end"))
    })
  const built = Deferred.makeUnsafe<Context.Context<Services>>()
  host.run(
    Effect.scoped(
      Effect.gen(function* () {
        const sql = yield* makeModelClient(model, client, new Notifications(network))
        const services = yield* Layer.build(layerOf(clock).pipe(Layer.provideMerge(layerClient(sql))))
        yield* Deferred.succeed(built, services)
        return yield* Effect.never
      })
    )
  )
  const withServices = <A, E>(effect: Effect.Effect<A, E, Services>) =>
    Effect.flatMap(Deferred.await(built), (services) => Effect.provideContext(effect, services))
  return {
    advance,
    start: (principal, effect) =>
      Effect.sync(() => {
        const fiber = host.run(withServices(Effect.provideService(effect, CurrentPrincipal, principal)))
        const { lockWaits } = store.counts
        while (fiber.pollUnsafe() === undefined && store.counts.lockWaits === lockWaits && simulation.step());
        return { exit: toEnd(fiber), isWaiting: fiber.pollUnsafe() === undefined }
      }),
    open: (blocker) =>
      Effect.sync(() => {
        let began = false
        const ended = Deferred.makeUnsafe<void>()
        const fiber = host.run(
          withServices(
            Effect.flatMap(SqlClient.SqlClient, (sql) =>
              transaction(
                Effect.gen(function* () {
                  yield* hold(sql, blocker)
                  began = true
                  yield* Deferred.await(ended)
                })
              )
            )
          )
        )
        while (!began && simulation.step());
        return {
          end: Effect.suspend(() => {
            host.run(Deferred.succeed(ended, undefined))
            return Effect.asVoid(toEnd(fiber))
          })
        }
      }),
    setEndpoint: (org_id, endpoint_id, active) =>
      Effect.sync(() => {
        const open = store.begin()
        const version = String(store.nextval("transactions"))
        model.writeEndpoint(open, { org_id, endpoint_id, events: approvalEventTypes, active, version })
        open.commit()
      }),
    dump: Effect.sync(() => [
      ...Array.from(model.sessions.committed(), ([, row]) =>
        line("session", row.session_id, row.closed_at !== null, row.last_event, row.proposals_until)
      ),
      ...Array.from(model.steps.committed(), ([, row]) =>
        line(
          "step",
          row.session_id,
          row.step_id,
          row.decision,
          row.last_decision,
          row.outcome_status,
          row.outcome_at !== null,
          row.approval_id,
          row.proposal_approval_id
        )
      ),
      ...Array.from(model.approvals.committed(), ([, row]) =>
        line(
          "approval",
          row.approval_id,
          row.status,
          row.stage,
          row.outcome,
          row.decision_source,
          row.decided_by_id,
          row.expiring_notified,
          row.expires_at,
          row.next_due_at,
          row.decided_at,
          row.escalated_at,
          row.proposed_arguments,
          row.proposed_digest,
          row.proposed_by,
          row.proposal_expires_at,
          row.proposal_step_id,
          row.arguments_bytes
        )
      ),
      ...Array.from(model.events.committed(), ([, row]) =>
        line("event", row.session_id, row.number, row.type, row.step_id, row.data)
      ),
      ...Array.from(model.notifications.committed(), ([, row]) =>
        line("notification", row.type, row.approval_id)
      ),
      ...Array.from(model.deliveries.committed(), ([, row]) =>
        line("delivery", row.destination_id, row.label)
      ),
      ...Array.from(model.audits.committed(), ([, row]) =>
        line("audit", row.action, row.target_id, row.actor_id)
      ),
      ...Array.from(model.rules.committed(), ([, row]) => line("rules", row.org_id, row.revision))
    ])
  }
})
