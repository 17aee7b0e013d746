import { type Array as Arr, Record as Rec } from "effect"
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

/** What each preset is for, and its scopes. */
const presets = {
  admin: { purpose: "full access", scopes },
  reviewer: {
    purpose: "people who decide approvals and review feedback",
    scopes: [
      "feedback.read",
      "feedback.write",
      "tasks.read",
      "runs.read",
      "datasets.read",
      "sessions.read",
      "approvals.read",
      "approvals.decide"
    ]
  },
  runtime: {
    purpose: "agents and task runners",
    scopes: ["tasks.read", "tasks.run", "sessions.read", "sessions.write", "approvals.read"]
  },
  hook: { purpose: "coding agents, which read no sessions but their own", scopes: ["sessions.write"] },
  integration: { purpose: "systems that submit feedback", scopes: ["feedback.write", "feedback.read"] },
  end_user_feedback: {
    purpose: "servers whose pages collect feedback of end users",
    scopes: ["feedback.create"]
  }
} as const satisfies Readonly<Record<string, { purpose: string; scopes: ReadonlyArray<Scope> }>>

export const Preset = documentedEnum(
  Rec.map(presets, (preset) => {
    const granted =
      preset.scopes === scopes ? "every scope" : preset.scopes.map((one) => `\`${one}\``).join(", ")
    return `For ${preset.purpose}: ${granted}.`
  })
)
export type Preset = typeof Preset.Type

/** What a preset is for, as the rest of a sentence that begins with "for". */
export const presetPurpose = (preset: Preset): string => presets[preset].purpose

/** The scopes of a preset. */
export const presetScopes = (preset: Preset): ReadonlyArray<Scope> => presets[preset].scopes
