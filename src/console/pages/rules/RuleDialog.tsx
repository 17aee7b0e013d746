import { Schema } from "effect"
import { type FormEvent, useState } from "react"
import { type ApprovalRule, RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import { TaskId } from "../../../domain/Ids.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { Field } from "../../ui/Field.tsx"
import type { RuleDraft } from "./RuleDraft.ts"
import { DurationField } from "./DurationField.tsx"

const choices: Record<RuleEffect, string> = {
  require_approval: "ask a person",
  allow: "allow it",
  reject: "reject it"
}

const isTaskId = Schema.is(TaskId)

/** One rule, edited. What it becomes is saved with the list. */
export const RuleDialog = ({
  draft,
  listed,
  onClose,
  onPut
}: {
  readonly draft: RuleDraft
  /** Whether it stands in the list already, saved or not. */
  readonly listed: boolean
  readonly onClose: () => void
  readonly onPut: (draft: RuleDraft) => void
}) => {
  const [rule, setRule] = useState(draft.rule)
  const [task, setTask] = useState(draft.rule.task_id ?? "")
  const set = (change: Partial<ApprovalRule>) => setRule({ ...rule, ...change })
  const taskFault = task !== "" && !isTaskId(task) ? "A task's id reads tsk_ and 32 hex digits" : undefined
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (taskFault !== undefined) return
    onPut({ ...draft, rule: { ...rule, task_id: isTaskId(task) ? task : null } })
  }
  return (
    <Dialog open title={listed ? "Edit the rule" : "New rule"} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <Field label="Tool" hint="Exactly, or with * for any run of characters.">
          {(field) => (
            <input
              {...field}
              required
              maxLength={200}
              spellCheck={false}
              value={rule.tool}
              onChange={(event) => set({ tool: event.target.value })}
            />
          )}
        </Field>
        <Field label="Action class" hint="Such as read, write or admin, as the agents name it.">
          {(field) => (
            <input
              {...field}
              required
              maxLength={200}
              spellCheck={false}
              value={rule.action_class}
              onChange={(event) => set({ action_class: event.target.value })}
            />
          )}
        </Field>
        <Field label="Task" hint="Empty: any, or none." fault={taskFault}>
          {(field) => (
            <input
              {...field}
              placeholder="tsk_…"
              spellCheck={false}
              value={task}
              onChange={(event) => setTask(event.target.value.trim())}
            />
          )}
        </Field>
        <Field label="What it does">
          {(field) => (
            <select
              {...field}
              value={rule.effect}
              onChange={({ target }) => {
                const effect = RuleEffect.literals.find((one) => one === target.value)
                if (effect !== undefined) set({ effect })
              }}
            >
              {RuleEffect.literals
                .toSorted((left, right) => choices[left].localeCompare(choices[right]))
                .map((effect) => (
                  <option key={effect} value={effect}>
                    {choices[effect]}
                  </option>
                ))}
            </select>
          )}
        </Field>
        {rule.effect === "require_approval" ? (
          <>
            <DurationField
              label="Time to decide"
              seconds={rule.review_seconds}
              onChange={(seconds) => set({ review_seconds: seconds ?? rule.review_seconds })}
            />
            <DurationField
              label="Then, time for the admins"
              hint="Empty: none; the approval expires."
              optional
              seconds={rule.escalation_seconds}
              onChange={(escalation_seconds) => set({ escalation_seconds })}
            />
            <DurationField
              label="Warn before the end"
              hint="Empty: when a quarter is left."
              optional
              seconds={rule.expiring_seconds}
              onChange={(expiring_seconds) => set({ expiring_seconds })}
            />
            <Field label="If nobody decides">
              {(field) => (
                <select
                  {...field}
                  value={rule.timeout_action}
                  onChange={({ target }) =>
                    set({ timeout_action: target.value === "allow" ? "allow" : "reject" })
                  }
                >
                  <option value="reject">reject the step</option>
                  <option value="allow">allow the step</option>
                </select>
              )}
            </Field>
            <label className="check">
              <input
                type="checkbox"
                checked={rule.self_approval}
                onChange={({ target }) => set({ self_approval: target.checked })}
              />
              <span>The key that asked may decide</span>
            </label>
          </>
        ) : null}
        <Field label="Reason" hint="Said to the agent and to reviewers.">
          {(field) => (
            <textarea
              {...field}
              rows={2}
              maxLength={1_000}
              value={rule.reason}
              onChange={(event) => set({ reason: event.target.value })}
            />
          )}
        </Field>
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            {listed ? "Change it" : "Add it at the end"}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
