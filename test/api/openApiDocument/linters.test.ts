import { assert, describe, it } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import spectralCore, { type RulesetDefinition } from "@stoplight/spectral-core"
import spectralRulesets from "@stoplight/spectral-rulesets"
import { openApiDocument } from "../../../src/api/openApiDocument.ts"

const source = JSON.stringify(openApiDocument())

/** A finding of Spectral. */
interface Finding {
  readonly code: string | number
  readonly message: string
  readonly path: ReadonlyArray<string | number>
}

/** The findings of Spectral's recommended rules that are not defects of the document, each with the reason. */
const exceptions: ReadonlyArray<(finding: Finding) => boolean> = [
  // OpenAPI 3.1 allows role names in a requirement of any scheme. Spectral applies the rule of 3.0, which allows them for OAuth alone.
  ({ code }) => code === "oas3-operation-security-defined",
  // JSON Schema 2020-12 (section 6.4) has patterns compiled as Unicode. Spectral does not, so that its `\p{…}` matches no valid name.
  // Every example is validated in reference.test.ts.
  ({ code }) => code === "oas3-valid-media-example"
]

describe("The OpenAPI document", () => {
  it("passes Redocly's recommended rules", { timeout: 120_000 }, async () => {
    const config = await createConfig({ extends: ["recommended"] })
    const problems = await lintFromString({ source, absoluteRef: "/openapi.json", config })
    assert.deepStrictEqual(
      problems.map(({ location, message, ruleId }) => [
        ruleId,
        message,
        location.map(({ pointer }) => pointer)
      ]),
      []
    )
  })

  it(
    "passes Spectral's recommended rules, apart from the listed exceptions",
    { timeout: 120_000 },
    async () => {
      const spectral = new spectralCore.Spectral()
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the package declares its ruleset without the optional `extends`
      spectral.setRuleset({ extends: [[spectralRulesets.oas as RulesetDefinition, "recommended"]] })
      const findings: ReadonlyArray<Finding> = await spectral.run(JSON.parse(source))
      for (const isException of exceptions)
        assert.isTrue(findings.some(isException), "each exception still occurs")
      assert.deepStrictEqual(
        findings
          .filter((finding) => !exceptions.some((isException) => isException(finding)))
          .map(({ code, message, path }) => [code, message, path.join("/")]),
        []
      )
    }
  )
})
