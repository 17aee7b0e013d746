import { Schema } from "effect"
import { ReplaceApprovalRules } from "./ApprovalRules.ts"
import { mapValues, type Node, record } from "./openApiDocument/node.ts"
import { simplify } from "./openApiDocument/simplify.ts"

/** The path at which the service serves the JSON Schema of a rules file, and the name of the packaged file. */
export const RULES_SCHEMA_FILE = "approval-rules.schema.json"

/** A file with an organization's approval rules, as JSON or YAML. */
export const RulesFile = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String).annotateKey({
    description: "URL of the JSON Schema of this file, for editors."
  }),
  rules: ReplaceApprovalRules.fields.rules
}).annotate({ identifier: "RulesFile", description: "The approval rules of an organization, in order." })
export type RulesFile = typeof RulesFile.Type

/** The JSON Schema of a rules file, as editors read it. Made from the contract. */
export const rulesFileJsonSchema = (): Node => {
  const { definitions } = Schema.toJsonSchemaDocument(RulesFile)
  const { RulesFile: file, ...others } = mapValues(definitions, (definition) =>
    closed(record(simplify(definition)))
  )
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Countersign approval rules",
    ...record(file),
    $defs: others
  }
}

/** An object with named members has no others: a misspelled condition would make a rule match every step. */
const closed = (definition: Node): Node =>
  definition["properties"] === undefined ? definition : { ...definition, additionalProperties: false }
