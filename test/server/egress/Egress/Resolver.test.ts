import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeResolver } from "../../../../src/server/egress/Egress/Resolver.ts"
import { nameServer, type Zone } from "../../../support/dns.ts"

const hostile: ReadonlyArray<Zone> = ["garbage", "SERVFAIL", "silence", "truncated"]

const isGood = (name: string) => name.startsWith("good-")

/** A name server that answers good names, and each bad name in another wrong way. */
const mixed = nameServer(({ name }) =>
  isGood(name) ? ["127.0.0.1"] : (hostile[Number(/\d+/.exec(name)?.[0]) % hostile.length] ?? "silence")
)

describe("makeResolver", () => {
  it.live("names of a hostile name server do not make lookups of other names fail", () =>
    Effect.gen(function* () {
      const server = yield* mixed
      const lookup = yield* makeResolver([server.address])
      const names = Array.from(
        { length: 400 },
        (_, index) => `${index % 2 === 0 ? "good" : "bad"}-${index >> 1}.example.com`
      )
      const results = yield* Effect.forEach(
        names,
        (name, index) =>
          Effect.map(
            Effect.result(lookup(name, `org_${index % 2 === 0 ? index % 20 : "hostile"}`)),
            (result) => ({ name, result })
          ),
        { concurrency: "unbounded" }
      )
      const failed = results.filter(({ name, result }) => isGood(name) && result._tag === "Failure")
      assert.deepStrictEqual(failed, [])
      assert.isTrue(results.every(({ name, result }) => isGood(name) || result._tag === "Failure"))
    })
  )

  it.live("an organization whose names are not answered waits by itself", () =>
    Effect.gen(function* () {
      const server = yield* mixed
      const lookup = yield* makeResolver([server.address])
      const silent = Array.from({ length: 200 }, (_, index) => `bad-${4 * index + 2}.example.com`)
      let ended = 0
      yield* Effect.forkScoped(
        Effect.forEach(
          silent,
          (name) =>
            Effect.andThen(
              Effect.ignore(lookup(name, "org_hostile")),
              Effect.sync(() => ended++)
            ),
          { concurrency: "unbounded" }
        )
      )
      yield* Effect.yieldNow
      yield* lookup("good-1.example.com", "org_other")
      // It waited for none of them.
      assert.strictEqual(ended, 0)
      const asked = new Set(server.questions.map(({ name }) => name))
      asked.delete("good-1.example.com")
      assert.isAtMost(asked.size, 32)
    })
  )
})
