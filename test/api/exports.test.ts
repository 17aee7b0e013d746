import { assert, describe, it } from "@effect/vitest"
import { Schema, SchemaAST } from "effect"
import { HttpApiGroup } from "effect/http-api"
import { webhookSchemas } from "../../src/api/webhookDocs.ts"
import * as exported from "../../src/api/index.ts"

const values: ReadonlyArray<unknown> = Object.values(exported)

const identifiers = new Set(values.filter(Schema.isSchema).map(({ ast }) => SchemaAST.resolveIdentifier(ast)))

describe("countersign/api", () => {
  it("every group of the API is exported", () => {
    const groups = values.filter(HttpApiGroup.isHttpApiGroup).map(({ identifier }) => identifier)
    assert.sameMembers(groups, Object.keys(exported.Api.groups))
  })

  it("every schema that the document names is exported, problems by the names of their classes", () => {
    const { components } = exported.openApiDocument()
    const missing = Object.keys(components.schemas)
      // The generator appends this to the name of a wire form that differs from the type.
      .map((name) => name.replace(/Encoded$/, ""))
      // A page of a list is named by its items.
      .map((name) => name.replace(/Page$/, ""))
      // The bodies of webhooks have types in `countersign/webhook`.
      .filter((name) => !(name in webhookSchemas))
      .filter((name) => !(name in exported || identifiers.has(name)))
    assert.deepStrictEqual(missing, [])
  })
})
