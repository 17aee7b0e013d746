import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { PromotionPreview, PromotionResult } from "../../src/api/Feedback.ts"
import { schemaExamples } from "../../src/api/examples.ts"
import { Canary } from "../../src/domain/tasks/Canary.ts"
import { Dataset } from "../../src/domain/tasks/Dataset.ts"
import { ReleaseChanges } from "../../src/domain/tasks/ReleaseChanges.ts"

const example = <A, I>(name: string, schema: Schema.Codec<A, I>): A =>
  Schema.decodeUnknownSync(schema)(schemaExamples[name])

describe("The API's examples", () => {
  it("a canary is another release than the live one, and changes are between two releases", () => {
    const { canary, live, release } = example("Canary", Canary)
    assert.strictEqual(canary.release_id, release.id)
    assert.notStrictEqual(canary.release_id, live.release_id)
    const { release_id, since } = example("ReleaseChanges", ReleaseChanges)
    assert.notStrictEqual(release_id, since)
  })

  it("a promotion has as many examples as its preview and its dataset say", () => {
    const { example_count, examples_added } = example("PromotionPreview", PromotionPreview)
    assert.strictEqual(example_count, example("Dataset", Dataset).example_count + examples_added)
    assert.strictEqual(example_count, example("PromotionResult", PromotionResult).dataset.example_count)
  })
})
