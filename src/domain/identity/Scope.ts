import type { Array as Arr } from "effect"
import { documentedEnum } from "../documentedEnum.ts"

const purposes = {
  "feedback.write": "Give, stage and reject feedback; create feedback tokens.",
  "feedback.create": "Give feedback and create feedback tokens, and nothing else.",
  "feedback.read": "Read feedback and preview promotions.",
  "datasets.write": "Create dataset versions and promote corrections.",
  "org_config.read":
    "Read webhook endpoints, telemetry destinations and their deliveries, and redaction settings.",
  "org_config.write":
    "Change webhook endpoints, telemetry destinations and redaction settings; test and replay deliveries.",
  "tasks.read": "Read tasks, comparisons and releases.",
  "tasks.write": "Change tasks; start comparisons; release.",
  "tasks.run": "Run tasks.",
  "runs.read": "Read the runs of tasks: their inputs, answers and metadata.",
  "datasets.read": "Read and export dataset versions.",
  "sessions.read": "Read agent sessions and follow their events.",
  "sessions.write":
    "Create agent sessions; submit steps and outcomes in those of the key; read and close those.",
  "approvals.read": "Read approvals and approval rules.",
  "approvals.decide": "Decide approvals in stage `reviewer`.",
  "approvals.admin": "Decide escalated approvals, with `approvals.decide`; read the audit log.",
  "rules.write": "Replace the approval rules; create, stop and restore reviewer models.",
  "data.delete":
    "Delete runs, feedback, dataset versions and tasks; erase data subjects; change the retention settings.",
  "keys.write": "List, create, rename and revoke API keys."
}

export const Scope = documentedEnum(purposes)
export type Scope = typeof Scope.Type

/** What each scope permits, in Markdown. */
export const scopePurposes: Readonly<Record<Scope, string>> = purposes

/** Every scope, in the order of the reference. */
export const scopes: Arr.NonEmptyReadonlyArray<Scope> = Scope.literals

export const Preset = documentedEnum({
  admin: "Every scope.",
  reviewer:
    "For people who decide: `feedback.read`, `feedback.write`, `tasks.read`, `runs.read`, `datasets.read`, `sessions.read`, `approvals.read`, `approvals.decide`.",
  runtime: "For agents: `tasks.read`, `tasks.run`, `sessions.read`, `sessions.write`, `approvals.read`.",
  hook: "For coding agents, which read no sessions but their own: `sessions.write`.",
  integration: "For products that send feedback: `feedback.write`, `feedback.read`.",
  end_user_feedback: "For servers whose pages collect feedback of end users: `feedback.create`."
})
export type Preset = typeof Preset.Type

const presets: Record<Preset, ReadonlyArray<Scope>> = {
  admin: scopes,
  reviewer: [
    "feedback.read",
    "feedback.write",
    "tasks.read",
    "runs.read",
    "datasets.read",
    "sessions.read",
    "approvals.read",
    "approvals.decide"
  ],
  runtime: ["tasks.read", "tasks.run", "sessions.read", "sessions.write", "approvals.read"],
  hook: ["sessions.write"],
  integration: ["feedback.write", "feedback.read"],
  end_user_feedback: ["feedback.create"]
}

/** The scopes of a preset. */
export const presetScopes = (preset: Preset): ReadonlyArray<Scope> => presets[preset]
