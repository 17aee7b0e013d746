import { assert, it } from "@effect/vitest"
import packageJson from "../../package.json" with { type: "json" }
import { VERSION } from "../../src/domain/Version.ts"

it("the version is the package's", () => assert.strictEqual(VERSION, packageJson.version))
