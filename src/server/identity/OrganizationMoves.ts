/**
 * What this process knows about organizations that move to or from another installation (a cell), see `docs/cells.md`.
 *
 * ```
 *   leaves here:   active ── export ──▶ frozen ── commit ──▶ moved ── finish ──▶ left
 *                    ▲                    │ abort
 *                    └────────────────────┘
 *   arrives here:  (none) ── import ──▶ importing ──▶ staged ── activate ──▶ arrived (active)
 *                                        │    ▲         │
 *                              of a copy ▼    │ import  │ abort, from each of them
 *                                        copied         ▼
 *                                                   discarded
 * ```
 *
 * The database holds the states. Each replica polls those in which an organization is fenced: then it refuses the organization's requests,
 * holds its deliveries, ends its requests that wait for a person, and reports its requests and attempts in progress, which the export waits
 * for. Triggers enforce the fence for a replica
 * that has not polled.
 */
import { Context, Effect, Layer, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { OrganizationMoved, Unavailable } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { int4Array, textArray } from "../store/pgArrays.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Pause between two polls, in milliseconds. */
export const MOVE_POLL_MILLIS = 1_000

/** A state in which an organization is fenced. */
export type FencedState = "frozen" | "moved" | "copied" | "importing" | "staged"

interface FencedOrganization {
  readonly state: FencedState
  readonly moved_to: string | null
}

/** Organizations that are fenced, as of the last poll. */
export interface OrganizationMovesShape {
  /** Why a request of this organization is refused now; undefined if it is not. A frozen organization can be read. */
  readonly refusalOf: (org_id: OrgId, isRead: boolean) => OrganizationMoved | Unavailable | undefined
  /** Whether deliveries of the organization must wait. */
  readonly isFenced: (org_id: OrgId) => boolean
  /** Runs work of the organization, and counts it as in flight meanwhile: it may write. */
  readonly track: (org_id: OrgId) => <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Counts work of the organization as in flight, until the returned function is called. */
  readonly begin: (org_id: OrgId) => () => void
  /**
   * Calls a function after each poll that finds fenced organizations, until the scope closes. It runs synchronously and must not throw. For work
   * that waits long, and ends earlier when its organization moves: the export waits for it.
   */
  readonly subscribe: (
    onFenced: (organizations: ReadonlySet<OrgId>) => void
  ) => Effect.Effect<void, never, Scope.Scope>
  /** Reads the fenced organizations, and reports work in flight for those that are about to be exported. */
  readonly poll: Effect.Effect<void>
}

const moving = new Unavailable({
  detail: "The organization is moving to another installation. Retry shortly."
})

/** By default no organization moves. */
export const OrganizationMoves = Context.Reference<OrganizationMovesShape>(
  "countersign/server/identity/OrganizationMoves",
  {
    defaultValue: () => ({
      refusalOf: () => undefined,
      isFenced: () => false,
      track: () => (work) => work,
      begin: () => () => undefined,
      subscribe: () => Effect.void,
      poll: Effect.void
    })
  }
)

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const replica = SecureRandom.uuidV7Unsafe()
  /** Counts work of the organization: removed at zero, so that its size is that of the work in progress. */
  const inFlight = new Map<OrgId, number>()
  let fenced = new Map<OrgId, FencedOrganization>()
  const subscribers = new Set<(organizations: ReadonlySet<OrgId>) => void>()

  const add = (org_id: OrgId, count: 1 | -1) => {
    const left = (inFlight.get(org_id) ?? 0) + count
    if (left === 0) inFlight.delete(org_id)
    else inFlight.set(org_id, left)
  }

  const poll = Effect.gen(function* () {
    const rows = yield* sql<FencedOrganization & { readonly org_id: OrgId }>`
      SELECT org_id, state, moved_to
      FROM organization_moves
      WHERE is_fenced
    `
    fenced = new Map(rows.map((row) => [row.org_id, row]))
    if (fenced.size > 0) {
      const organizations = new Set(fenced.keys())
      for (const onFenced of subscribers) onFenced(organizations)
    }
    const draining = rows.filter(({ state }) => state === "frozen" || state === "importing")
    if (draining.length === 0) return
    const ids = draining.map(({ org_id }) => org_id)
    yield* sql`
      INSERT INTO organization_move_replicas (org_id, replica, in_flight, seen_at)
      SELECT org_id, ${replica}, in_flight, ${toDate(yield* clock.now)}
      FROM unnest(${textArray(ids)}, ${int4Array(ids.map((id) => inFlight.get(id) ?? 0))}) AS moving (org_id, in_flight)
        JOIN organization_moves USING (org_id)
      ON CONFLICT (org_id, replica) DO UPDATE
      SET in_flight = excluded.in_flight, seen_at = excluded.seen_at
    `
  }).pipe(Effect.orDie)

  yield* poll
  yield* startWorkers([
    runWorker({
      name: "organization_moves",
      runOnce: poll,
      every: MOVE_POLL_MILLIS,
      firstRun: "after_pause"
    })
  ])

  return {
    refusalOf: (org_id, isRead) => {
      const move = fenced.get(org_id)
      if (move === undefined) return undefined
      if (move.state === "moved") {
        const where = move.moved_to === null ? "another installation" : move.moved_to
        return new OrganizationMoved({
          detail: `The organization has moved to ${where}. Send the request there.`,
          moved_to: move.moved_to
        })
      }
      return move.state === "frozen" && isRead ? undefined : moving
    },
    isFenced: (org_id) => fenced.has(org_id),
    track: (org_id) => (work) =>
      Effect.acquireUseRelease(
        Effect.sync(() => add(org_id, 1)),
        () => work,
        () => Effect.sync(() => add(org_id, -1))
      ),
    begin: (org_id) => {
      add(org_id, 1)
      return () => add(org_id, -1)
    },
    subscribe: (onFenced) =>
      Effect.acquireRelease(
        Effect.sync(() => subscribers.add(onFenced)),
        () => Effect.sync(() => subscribers.delete(onFenced))
      ),
    poll
  } satisfies OrganizationMovesShape
})

/** The organizations that move to or from this installation. */
export const layerOrganizationMoves = Layer.effect(OrganizationMoves, make)
