import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { findMatches } from "../../../src/server/store/findMatches.ts"
import type { ListOrder } from "../../../src/server/store/Pagination.ts"
import { service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("A list that is searched", (it) => {
  it.effect("examines a limited number of rows for a page, and goes on from there", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE searched_rows (id text COLLATE "C" PRIMARY KEY, content text NOT NULL)`
      yield* sql`
        INSERT INTO searched_rows
        SELECT lpad(n::text, 3, '0'), CASE WHEN n % 10 = 0 THEN 'Rare thing' ELSE 'thing' END
        FROM generate_series(1, 100) AS n
      `
      const search = Effect.fnUntraced(function* (words: string, order: ListOrder, limit: number) {
        const found: Array<string> = []
        const sizes: Array<number> = []
        let cursor: string | undefined
        for (;;) {
          const page = yield* findMatches(sql, {
            table: "searched_rows",
            id: "id",
            text: "content",
            where: sql`id <> '050'`,
            words,
            order,
            cursor,
            limit,
            maxExamined: 25
          })
          found.push(...page.ids)
          sizes.push(page.ids.length)
          cursor = page.horizon ?? (page.ids.length === limit ? page.ids.at(-1) : undefined)
          if (cursor === undefined) return { found, sizes }
        }
      })
      const rare = ["010", "020", "030", "040", "060", "070", "080", "090", "100"]
      assert.deepStrictEqual(yield* search("RARE", "oldest", 3), { found: rare, sizes: [2, 2, 2, 3, 0] })
      assert.deepStrictEqual((yield* search("thing rare", "newest", 3)).found, rare.toReversed())
      assert.deepStrictEqual((yield* search("thing", "newest", 7)).found.length, 99)
      assert.deepStrictEqual((yield* search("none", "newest", 7)).found, [])
    })
  )
})
