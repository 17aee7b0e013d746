import { assert, it } from "@effect/vitest"
import { Schema } from "effect"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"

const ATTEMPTS = 10_000
const script = fileURLToPath(new URL("canaryProcess.ts", import.meta.url))

/** What the process counted. */
const Counted = Schema.fromJsonString(
  Schema.Struct({
    open: Schema.Int,
    canaries: Schema.Int,
    answered: Schema.Int,
    lookUps: Schema.Int,
    names: Schema.Int
  })
)

/** Addresses that must never be reached, and that are this machine's own in a network of its own. */
const inside = [
  "10.0.0.1",
  "100.64.0.1",
  "168.63.129.16",
  "169.254.169.254",
  "172.16.0.1",
  "192.168.1.1",
  "198.18.0.1",
  "fd00:ec2::254",
  "2002:7f00:1::1"
]

/** Whether this machine lets a test have a network of its own, and how. */
const unshare = [["--net"], ["--net", "--map-root-user"]].find(
  (flags) => spawnSync("unshare", [...flags, "ip", "link", "set", "lo", "up"]).status === 0
)
if (unshare === undefined) {
  process.stdout.write(
    "canaries on loopback alone: this machine lets nobody have a network namespace (unshare, ip)\n"
  )
}

it(`in ${ATTEMPTS} attempts no address that is refused is connected to, and each name is looked up once`, () => {
  const [command, args] =
    unshare === undefined
      ? [process.execPath, [script, String(ATTEMPTS), "127.0.0.1", "127.0.0.2,127.9.9.9,::1", "false"]]
      : [
          "unshare",
          [...unshare, process.execPath, script, String(ATTEMPTS), "93.184.216.34", inside.join(","), "true"]
        ]
  const { stderr, stdout } = spawnSync(command, args, { encoding: "utf8", timeout: 240_000 })
  const counted = Schema.decodeSync(Counted)(stdout === "" ? assert.fail(stderr) : stdout)
  assert.strictEqual(counted.canaries, 0)
  // A query for each family: never a second look-up between judging and dialling.
  assert.strictEqual(counted.lookUps, 2 * counted.names)
  // The one open address is reached all the while, or the above would prove nothing.
  assert.isAbove(counted.open, 10)
  assert.isAbove(counted.answered, ATTEMPTS / 10)
}, 300_000)
