import type { Environment } from "../../server/config/Settings.ts"
import { reportSettings } from "../../server/config/Settings/reportSettings.ts"
import type { VariableName } from "../../server/config/Settings/variables.ts"

/**
 * The variables whose values a support bundle shows: numbers and switches. A closed list, so that a new variable is hidden until
 * it is added here. Addresses, names, URLs, paths and networks are not in it.
 */
export const SHOWN_SETTINGS: ReadonlyArray<VariableName> = [
  "PORT",
  "COUNTERSIGN_CONNECTION_LIMIT",
  "COUNTERSIGN_CONNECTION_LIMIT_PER_ADDRESS",
  "COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES",
  "COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION",
  "COUNTERSIGN_UNREAD_RESPONSE_SECONDS",
  "COUNTERSIGN_UNREAD_RESPONSE_KIBIBYTES_PER_SECOND",
  "COUNTERSIGN_CREATE_DATABASE",
  "COUNTERSIGN_MAIL_PER_ADDRESS_AND_HOUR",
  "COUNTERSIGN_EGRESS_HTTP",
  "COUNTERSIGN_NOTIFY_RETRY_SECONDS",
  "COUNTERSIGN_NOTIFY_QUEUE_LIMIT",
  "COUNTERSIGN_NOTIFY_COOLDOWN_AFTER",
  "COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS",
  "COUNTERSIGN_NOTIFY_COOLDOWN_MAX_SECONDS",
  "COUNTERSIGN_NOTIFY_HOST_RATE_PER_SECOND",
  "COUNTERSIGN_NOTIFY_HOST_TOTAL_RATE_PER_SECOND",
  "COUNTERSIGN_NOTIFY_RETENTION_DAYS",
  "COUNTERSIGN_NOTIFY_VERIFIED_ONLY",
  "COUNTERSIGN_MAIL_VERIFIED_ONLY",
  "COUNTERSIGN_TELEMETRY_QUEUE_LIMIT",
  "COUNTERSIGN_TELEMETRY_SAMPLE_RATIO",
  "COUNTERSIGN_TELEMETRY_SPANS_PER_SECOND",
  "COUNTERSIGN_TELEMETRY_FLUSH_SECONDS",
  "COUNTERSIGN_TELEMETRY_PAYLOAD_HOURS",
  "COUNTERSIGN_RATE_LIMIT_PER_SECOND",
  "COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND",
  "COUNTERSIGN_END_USER_FEEDBACK_PER_SECOND",
  "COUNTERSIGN_KEY_LIMIT",
  "COUNTERSIGN_OPEN_SESSION_LIMIT",
  "COUNTERSIGN_RUN_CONCURRENCY",
  "COUNTERSIGN_RUN_CONCURRENCY_MEBIBYTES",
  "COUNTERSIGN_READ_CONCURRENCY",
  "COUNTERSIGN_LARGE_BODY_MEBIBYTES",
  "COUNTERSIGN_STORED_RUN_LIMIT",
  "COUNTERSIGN_STORED_FEEDBACK_LIMIT",
  "COUNTERSIGN_STORED_MEBIBYTES_LIMIT",
  "COUNTERSIGN_KEY_RETENTION_DAYS",
  "COUNTERSIGN_CONSOLE_IDLE_MINUTES",
  "COUNTERSIGN_AUDIT_RETENTION_DAYS",
  "COUNTERSIGN_STOP_DELAY_SECONDS",
  "COUNTERSIGN_STOP_SECONDS",
  "COUNTERSIGN_LOG_LEVEL",
  "COUNTERSIGN_LOG_FORMAT",
  "COUNTERSIGN_LOG_REQUESTS",
  "COUNTERSIGN_LOG_REQUESTS_SAMPLE_RATIO",
  "COUNTERSIGN_SLOW_REQUEST_MILLIS",
  "COUNTERSIGN_SLOW_STATEMENT_MILLIS",
  "OTEL_SDK_DISABLED"
]

/** A variable of a support bundle. `value`: only of a shown and valid one. */
export interface ShownSetting {
  readonly variable: VariableName
  readonly state: "unset" | "set" | "invalid"
  readonly value: string | null
}

/** Whether each variable is set, and the values of the listed variables. The text of an invalid one may be a misplaced secret. */
export const showSettings = (environment: Environment): ReadonlyArray<ShownSetting> =>
  reportSettings(environment).map(({ fault, set, value, variable }) => ({
    variable,
    state: fault !== null ? "invalid" : set ? "set" : "unset",
    value: SHOWN_SETTINGS.includes(variable) && fault === null ? value : null
  }))
