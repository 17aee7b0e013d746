import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import path from "node:path"
import { root } from "../../../scripts/image/sources.ts"

const programs = path.join(root, "scripts", "image", "programs")

/** Runs the image's command with another text in place of the service, until it prints a line; sends it SIGTERM; returns its exit code. */
const terminate = async (service: string): Promise<unknown> => {
  const folder = mkdtempSync(path.join(tmpdir(), "countersign-image-command-"))
  try {
    copyFileSync(path.join(programs, "countersign.js"), path.join(folder, "countersign.js"))
    writeFileSync(path.join(folder, "package.json"), `{"type":"module"}`)
    writeFileSync(path.join(folder, "main.js"), service)
    const child = spawn(process.execPath, [path.join(folder, "countersign.js"), "version"], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    const ended = once(child, "close")
    await once(child.stdout, "data")
    child.kill("SIGTERM")
    const [code] = await ended
    return code
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const FOREVER = "setInterval(() => {}, 1000)"

describe("the command of the image", () => {
  it("ends at SIGTERM while the service is still loading", async () => {
    assert.strictEqual(
      await terminate(`${FOREVER}; console.log("loading"); await new Promise(() => {})`),
      143
    )
  })

  it("leaves SIGTERM to the service as soon as that handles it", async () => {
    const handles = `process.on("SIGTERM", () => setTimeout(() => process.exit(7), 50))`
    assert.strictEqual(await terminate(`${FOREVER}; ${handles}; setImmediate(() => console.log("ready"))`), 7)
  })
})

describe("the health check of the image", () => {
  const check = async (port: number, host: string): Promise<unknown> => {
    const child = spawn(process.execPath, [path.join(programs, "healthcheck.js")], {
      env: { PORT: String(port), HOST: host },
      stdio: "ignore"
    })
    const [code] = await once(child, "close")
    return code
  }

  it("succeeds if the service responds, and fails with another status or without a service", async () => {
    const asked: Array<string | undefined> = []
    let status = 200
    const server = createServer((request, response) => {
      asked.push(request.url)
      response.writeHead(status).end()
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    const port = address !== null && typeof address === "object" ? address.port : 0
    assert.strictEqual(await check(port, "0.0.0.0"), 0)
    status = 503
    assert.strictEqual(await check(port, "127.0.0.1"), 1)
    assert.deepStrictEqual(asked, ["/healthz", "/healthz"])
    server.close()
    await once(server, "close")
    assert.strictEqual(await check(port, ""), 1)
  })
})
