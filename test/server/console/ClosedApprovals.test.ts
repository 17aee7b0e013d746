import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import { CLOSED_PAGE, type ClosedFilter } from "../../../src/api/console/ClosedApprovals.ts"
import { ApprovalId, KeyId, type OrgId } from "../../../src/domain/Ids.ts"
import {
  ClosedApprovals,
  type ClosedRequest,
  closedStatement,
  findClosed
} from "../../../src/server/console/ClosedApprovals.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

const principalOf = Effect.fnUntraced(function* (organization: string) {
  const { key } = yield* Countersign
  const keys = yield* ApiKeys
  return yield* keys.verify(yield* key({ preset: "reviewer" }, organization))
})

const ada = KeyId.make(`key_${"1".padStart(32, "0")}`)
const bob = KeyId.make(`key_${"2".padStart(32, "0")}`)
const idOf = (number: number) => ApprovalId.make(`apr_${String(number).padStart(32, "0")}`)

/** A closed approval as a test stores it. `minute`: of its close. */
interface Closed {
  readonly number: number
  readonly minute: number
  readonly tool?: string
  readonly by?: string
  readonly status?: string
  readonly source?: string
}

const at = (minute: number) => DateTime.makeUnsafe(Date.UTC(2026, 10, 20, 0, minute))

const store = Effect.fnUntraced(function* (org_id: OrgId, approvals: ReadonlyArray<Closed>) {
  const sql = yield* SqlClient.SqlClient
  for (const {
    by = ada,
    minute,
    number,
    source = "human",
    status = "approved",
    tool = "mail.send"
  } of approvals) {
    yield* sql`
      INSERT INTO approvals (
        org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at,
        requested_by_id, review_deadline_at, expires_at, timeout_action, outcome, decision_source, decided_at, decided_by_id, decided_by_name
      ) VALUES (
        ${org_id}, ${idOf(number)}, ${`ses_${"0".repeat(32)}`}, ${`step ${number}`}, ${tool}, 'write', ${"0".repeat(64)}, ${status},
        'reviewer', '2026-11-19', ${ada}, now(), now(), 'reject', ${status === "approved" ? "allow" : "reject"}, ${source},
        ${DateTime.toDate(at(minute))}, ${source === "human" ? by : null}, ${source === "human" ? "somebody" : null}
      )
    `
  }
})

layer(service(), { excludeTestServices: true })("Closed approvals", (it) => {
  const list = Effect.fnUntraced(function* (organization: string, request: ClosedRequest = {}) {
    const closed = yield* ClosedApprovals
    return yield* Effect.provideService(
      closed.list(request),
      Authorized("approvals.read"),
      yield* principalOf(organization)
    )
  })
  const numbers = ({ approvals }: { readonly approvals: ReadonlyArray<{ readonly approval_id: string }> }) =>
    approvals.map(({ approval_id }) => Number(approval_id.slice(-6)))

  it.effect("are listed last closed first, and each filter gives exactly its approvals", () =>
    Effect.gen(function* () {
      const { org_id } = yield* principalOf("filters")
      yield* store(org_id, [
        { number: 1, minute: 30 },
        { number: 2, minute: 10, tool: "pay" },
        { number: 3, minute: 20, by: bob, status: "rejected" },
        { number: 4, minute: 5, status: "expired", source: "timeout" },
        { number: 5, minute: 6, status: "expired", source: "session_closed" }
      ])
      const other = yield* principalOf("another organization")
      yield* store(other.org_id, [{ number: 6, minute: 40 }])
      const filters: ReadonlyArray<readonly [ClosedFilter, ReadonlyArray<number>]> = [
        [{}, [1, 3, 2, 5, 4]],
        [{ tool: "pay" }, [2]],
        [{ tool: "none" }, []],
        [{ decided_by: bob }, [3]],
        [{ decided_by: ada }, [1, 2]],
        [{ outcome: "decided" }, [1, 3, 2]],
        [{ outcome: "approved" }, [1, 2]],
        [{ outcome: "rejected" }, [3]],
        [{ outcome: "timeout" }, [4]],
        [{ outcome: "session_closed" }, [5]],
        [{ since: at(10), until: at(30) }, [3, 2]],
        [{ since: at(10), until: at(30), outcome: "approved", tool: "pay" }, [2]]
      ]
      for (const [filter, expected] of filters) {
        const page = yield* list("filters", filter)
        assert.deepStrictEqual(
          [numbers(page), page.next_cursor, page.searched_to],
          [expected, null, null],
          JSON.stringify(filter)
        )
      }
      assert.deepStrictEqual(numbers(yield* list("another organization")), [6])
    })
  )

  it.effect("are paged, also those closed at the same time, and no page examines more than its bound", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { org_id } = yield* principalOf("pages")
      const count = 2 * CLOSED_PAGE + 7
      yield* store(
        org_id,
        Array.from({ length: count }, (_, number) => ({
          number,
          minute: number < 60 ? 1 : 2,
          tool: number % 50 === 0 ? "rare" : "often"
        }))
      )
      const seen: Array<number> = []
      let cursor: ClosedRequest = {}
      for (;;) {
        const page = yield* list("pages", cursor)
        seen.push(...numbers(page))
        if (page.next_cursor === null) break
        cursor = page.next_cursor
      }
      assert.deepStrictEqual(
        seen,
        Array.from({ length: count }, (_, index) => count - 1 - index)
      )
      // Of each 40 that are examined, few match: the page says how far it has searched.
      const found: Array<number> = []
      let pages = 0
      let next: ClosedRequest = {}
      for (;;) {
        const part = yield* findClosed(sql, org_id, { tool: "rare", ...next }, 40)
        pages++
        found.push(...part.found.map(({ approval_id }) => Number(approval_id.slice(-6))))
        if (part.horizon === null) break
        next = part.horizon
      }
      assert.deepStrictEqual([found, pages], [[100, 50, 0], 3])
    })
  )

  it.effect("are read by an index alone, however many there are", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { org_id } = yield* principalOf("plan")
      yield* sql`
        INSERT INTO approvals (
          org_id, approval_id, session_id, step_id, tool, action_class, arguments_digest, status, stage, requested_at,
          requested_by_id, review_deadline_at, expires_at, timeout_action, outcome, decision_source, decided_at, decided_by_id
        )
        SELECT
          ${org_id}, 'apr_' || lpad(n::text, 32, '0'), 'ses_1', n::text, 'tool ' || n % 100, 'write', '', 'approved', 'reviewer',
          now(), ${ada}, now(), now(), 'reject', 'allow', 'human', now() - n * interval '1 second', ${ada}
        FROM generate_series(1, 30000) AS n
      `
      yield* sql`ANALYZE approvals`
      const plan = yield* sql<{ readonly "QUERY PLAN": string }>`
        EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ${closedStatement(sql, org_id, { tool: "tool 7" }, 5_000)}
      `
      const text = plan.map((row) => row["QUERY PLAN"]).join("\n")
      assert.match(text, /Index Scan Backward using approvals_closed/)
      assert.notMatch(text, /Seq Scan on approvals/)
    })
  )

  it.effect("need the scope approvals.read", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const secret = yield* key({ preset: "integration" }, "scope")
      const response = yield* Effect.promise(async () => {
        const signedIn = await fetch(`${url}/console/session`, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            origin: url.replace("http:", "https:"),
            "sec-fetch-site": "same-origin"
          },
          body: JSON.stringify({ key: Redacted.value(secret) })
        })
        return fetch(`${url}/console/closed-approvals`, {
          headers: {
            cookie: signedIn.headers.get("set-cookie")?.split(";")[0] ?? "",
            "sec-fetch-site": "same-origin"
          }
        })
      })
      assert.strictEqual(response.status, 403)
    })
  )
})
