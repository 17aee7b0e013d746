import { type Duration, Layer } from "effect"
import type { SingleSignOnSettings } from "../../domain/identity/SingleSignOnSettings.ts"
import { People } from "../identity/People.ts"
import { RunList } from "../tasks/RunList.ts"
import { TaskList } from "../tasks/TaskList.ts"
import { ApprovalFeed } from "./ApprovalFeed.ts"
import { AuditRows } from "./AuditRows.ts"
import { ClosedApprovals } from "./ClosedApprovals.ts"
import { ConsoleDeliveries } from "./ConsoleDeliveries.ts"
import { ConsoleSessions } from "./ConsoleSessions.ts"
import { DatasetChanges } from "./DatasetChanges.ts"
import { DeliveryHealth } from "./DeliveryHealth.ts"
import { Exports } from "./Exports.ts"
import { Overview } from "./Overview.ts"
import { ReviewerAnswerList } from "./ReviewerAnswerList.ts"
import { Search } from "./Search.ts"
import { SingleSignOn } from "./SingleSignOn.ts"

/** The services that only the console's backend needs. */
export const layerConsoleServices = (settings: {
  readonly publicUrl: string
  readonly singleSignOn: SingleSignOnSettings | undefined
  readonly consoleIdle: Duration.Duration
}) =>
  Layer.mergeAll(
    ConsoleSessions.layer({ idle: settings.consoleIdle }),
    SingleSignOn.layer(settings).pipe(Layer.provideMerge(People.layer)),
    ApprovalFeed.layer,
    DeliveryHealth.layer,
    ConsoleDeliveries.layer,
    Search.layer,
    DatasetChanges.layer,
    Overview.layer,
    ClosedApprovals.layer,
    AuditRows.layer,
    ReviewerAnswerList.layer,
    RunList.layer,
    TaskList.layer,
    Exports.layer
  )
