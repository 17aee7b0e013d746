import { assert, it } from "@effect/vitest"
import packageJson from "../../package.json" with { type: "json" }
import { VERSION } from "../../src/domain/Version.ts"

it("VERSION equals the version in package.json", () => assert.strictEqual(VERSION, packageJson.version))
