import { useEnvironmentProxy } from "./cli/environmentProxy.ts"
import { readHookArguments } from "./cli/hook/hookOptions.ts"

const args = process.argv.slice(2)
const hook = readHookArguments(args)
await useEnvironmentProxy(args[0], process.env)
// A coding agent starts a hook for each call of a tool, so it does not load the command line's library.
if (hook === undefined) {
  const [{ countersign }, { run }] = await Promise.all([
    import("./cli/countersign.ts"),
    import("./cli/run.ts")
  ])
  run(countersign(args))
} else {
  const { main } = await import("./cli/hook/main.ts")
  await main(hook.vendor, hook.flags)
}
