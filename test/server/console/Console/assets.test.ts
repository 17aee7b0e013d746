import { assert, describe, it } from "@effect/vitest"
import path from "node:path"
import { buildDirectories } from "../../../../src/server/console/Console/assets.ts"

const root = path.join(path.sep, "home", "ada", "countersign")

describe("buildDirectories", () => {
  it("a checkout's console is found from the source and from the bundle that npm start runs", () => {
    for (const folder of [
      path.join("src", "server", "console", "Console"),
      path.join(".bundles", "8caf276f6e390885")
    ]) {
      assert.deepStrictEqual(buildDirectories(path.join(root, folder)), [path.join(root, ".console")])
    }
  })

  it("the published package's console is found beside the bundle and beside its chunks, and nowhere else", () => {
    const dist = path.join(root, "node_modules", "countersign", "dist")
    assert.include(buildDirectories(dist), path.join(dist, "console"))
    assert.include(buildDirectories(path.join(dist, "chunks")), path.join(dist, "console"))
    for (const folder of buildDirectories(dist)) {
      assert.isTrue(folder.startsWith(path.join(root, "node_modules", "countersign")))
    }
  })
})
