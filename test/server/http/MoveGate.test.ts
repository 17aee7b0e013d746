import { assert, describe, it } from "@effect/vitest"
import { Context, Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { Unavailable } from "../../../src/api/Problems.ts"
import { OrgId } from "../../../src/domain/Ids.ts"
import { makeMoveGate } from "../../../src/server/http/MoveGate.ts"
import { OrganizationMoves } from "../../../src/server/identity/OrganizationMoves.ts"

describe("the gate of organizations that move", () => {
  it.effect("counts requests in flight, reads too, but no reads of an organization that is frozen", () =>
    Effect.gen(function* () {
      const [active, frozen] = [yield* OrgId.generate, yield* OrgId.generate]
      const tracked: Array<OrgId> = []
      const idle = Context.get(Context.empty(), OrganizationMoves)
      const gate = yield* Effect.provideService(makeMoveGate, OrganizationMoves, {
        ...idle,
        isFenced: (org_id) => org_id === frozen,
        refusalOf: (org_id, isRead) =>
          org_id === frozen && !isRead ? new Unavailable({ detail: "It is moving." }) : undefined,
        track: (org_id) => (work) =>
          Effect.andThen(
            Effect.sync(() => tracked.push(org_id)),
            work
          )
      })
      const statusOf = (org_id: OrgId, method: string) =>
        Effect.map(
          gate.run(org_id, { method })(Effect.succeed(HttpServerResponse.empty())),
          ({ status }) => status
        )
      assert.deepStrictEqual(
        [
          yield* statusOf(active, "GET"),
          yield* statusOf(active, "POST"),
          yield* statusOf(frozen, "GET"),
          yield* statusOf(frozen, "POST")
        ],
        [204, 204, 204, 503]
      )
      assert.deepStrictEqual(tracked, [active, active])
    })
  )
})
