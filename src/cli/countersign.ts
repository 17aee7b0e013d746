import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, Effect, Layer } from "effect"
import { CliOutput, Command } from "effect/cli"
import { VERSION } from "../domain/Version.ts"
import { auditCommand } from "./audit.ts"
import { backupCommand } from "./backup.ts"
import { makeCompletionCommand } from "./completion.ts"
import { configCommand } from "./config.ts"
import { datasetsCommand } from "./datasets.ts"
import { demoCommand } from "./demo.ts"
import { doctorCommand } from "./doctor.ts"
import { hookCommand } from "./hook.ts"
import { keysCommand } from "./keys.ts"
import { listenCommand } from "./listen.ts"
import { mcpGateCommand } from "./mcpGate.ts"
import { mcpServerCommand } from "./mcpServer.ts"
import { migrateCommand } from "./migrate.ts"
import { restoreCommand } from "./restore.ts"
import { reviewersCommand } from "./reviewers.ts"
import { rulesCommand } from "./rules.ts"
import { runsCommand } from "./runs.ts"
import { serveCommand } from "./serve.ts"
import { supportBundleCommand } from "./supportBundle.ts"

const command = Command.make("countersign").pipe(
  Command.withDescription(
    "Feedback on task answers, telemetry export, and approvals with signed notifications, for teams that run AI tasks and agents."
  ),
  Command.withSubcommands([
    serveCommand,
    migrateCommand,
    backupCommand,
    restoreCommand,
    keysCommand,
    datasetsCommand,
    runsCommand,
    rulesCommand,
    reviewersCommand,
    auditCommand,
    configCommand,
    doctorCommand,
    supportBundleCommand,
    listenCommand,
    hookCommand,
    mcpGateCommand,
    mcpServerCommand,
    demoCommand,
    makeCompletionCommand((): Command.Command.Any => command)
  ])
)

/**
 * An invalid command line is reported on stderr, with the command that shows the help. Stdout carries only the output
 * of commands, which scripts capture, as in `KEY=$(countersign keys create …)`.
 */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? Console.error(
          `${plainFormatter.formatErrors(event.errors).trim().replaceAll("Expected: Schema validation failed: Expected ", "Expected: ")}\n\n` +
            `See ${event.commandPath.join(" ")} --help`
        )
      : CliOutput.defaultPresenter.present(event)
}

const plainFormatter = CliOutput.defaultFormatter({ colors: false })

/** Runs the command line `countersign <command> [flags]`. `errorMessage` describes its failures. */
export const countersign = (args: ReadonlyArray<string>): Effect.Effect<void, unknown> =>
  Command.runWith(command, { version: VERSION })(args).pipe(
    Effect.provide(Layer.merge(NodeServices.layer, CliOutput.layerPresenter(presenter)))
  )
