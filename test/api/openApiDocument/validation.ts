/** Validation by schemas of the published document. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import { openApiDocument } from "../../../src/api/openApiDocument.ts"

const ajv = new Ajv2020({
  strict: false,
  formats: {
    "date-time": /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/,
    uri: (text: string) => URL.canParse(text),
    double: true,
    int32: true,
    int64: true
  }
})

const ID = "https://countersign.test/openapi.json"
ajv.addSchema({ $id: ID, components: openApiDocument().components })

/** Compiles a schema of the document, whose references are to its components. */
export const validatorOf = (schema: unknown): ValidateFunction =>
  ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', `"${ID}#/`)))
