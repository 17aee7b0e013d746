import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import type { ApprovalRules, ShadowApprovalRules, ShadowCursor } from "../../../api/ApprovalRules.ts"
import { RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import {
  MAX_COUNTED_DIFFERENCES,
  type ShadowChange,
  type ShadowDifference
} from "../../../domain/approvals/ShadowDifference.ts"
import { Link } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { AbsoluteTime, RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { EffectBadge, effects } from "./EffectBadge.tsx"
import { type RuleDraft, toPayload } from "./RuleDraft.ts"

const shadowAtom = Atom.make(apiClient.approvalRules.getShadow())

/** The number of differences. Keyed by the revision, so that another list is counted again. */
const changesAtom = Atom.family((_revision: number) =>
  Atom.make(apiClient.approvalRules.listShadowDifferences({ query: { limit: 1 } }))
)

/** A pair of effects as text: `allow reject`; empty for all. */
type PairName = "" | `${ShadowChange["live"]} ${ShadowChange["shadow"]}`

const nameOf = ({ live, shadow }: ShadowChange): PairName => `${live} ${shadow}`

/** The differences of a revision, of one pair of effects or of all. */
const differencesAtom = Atom.family(({ pair }: { readonly revision: number; readonly pair: PairName }) =>
  pagedAtom((cursor: ShadowCursor | undefined) => {
    const [live, shadow] = pair.split(" ").map((text) => RuleEffect.literals.find((one) => one === text))
    return Effect.map(
      apiClient.approvalRules.listShadowDifferences({
        query: {
          ...(live === undefined ? {} : { live }),
          ...(shadow === undefined ? {} : { shadow }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
      ({ differences, next_cursor }) => ({ differences, next_cursor })
    )
  }, "differences")
)

/** The shadow rules of the organization, and where they differ from the decisions. */
export const ShadowRules = ({
  changed,
  drafts,
  editable,
  onEdit,
  onPromoted,
  revision
}: {
  readonly drafts: ReadonlyArray<RuleDraft>
  /** Whether the page has unsaved changes. */
  readonly changed: boolean
  readonly editable: boolean
  /** The revision of the live rules that the page has loaded. */
  readonly revision: number
  readonly onEdit: (drafts: ReadonlyArray<RuleDraft>) => void
  readonly onPromoted: (rules: ApprovalRules) => void
}) => {
  return (
    <section className="card rules-panel" aria-labelledby="shadow-rules">
      <div className="card-head">
        <div>
          <h2 id="shadow-rules">Shadow rules</h2>
          <p className="quiet small">
            A second list that is evaluated for each new step and decides nothing. The steps on which it
            differs are listed here.
          </p>
        </div>
      </div>
      <AsyncContent atom={shadowAtom}>
        {(shadow) => (
          <div className="stack padded">
            <p>
              {shadow.active ? (
                <>
                  {shadow.rules.length === 1 ? "1 rule" : `${shadow.rules.length.toLocaleString("en")} rules`}{" "}
                  since <AbsoluteTime time={shadow.since} />.
                </>
              ) : (
                "There are no shadow rules."
              )}
            </p>
            {editable ? (
              <ShadowActions shadow={shadow} {...{ changed, drafts, onEdit, onPromoted, revision }} />
            ) : null}
            {shadow.active ? <Differences key={shadow.revision} revision={shadow.revision} /> : null}
          </div>
        )}
      </AsyncContent>
    </section>
  )
}

const ShadowActions = ({
  changed,
  drafts,
  onEdit,
  onPromoted,
  revision,
  shadow
}: {
  readonly shadow: ShadowApprovalRules
  readonly changed: boolean
  readonly drafts: ReadonlyArray<RuleDraft>
  readonly revision: number
  readonly onEdit: (drafts: ReadonlyArray<RuleDraft>) => void
  readonly onPromoted: (rules: ApprovalRules) => void
}) => {
  const replaceWithDrafts = () =>
    apiClient.approvalRules.replaceShadow({
      payload: { rules: drafts.map(toPayload), revision: shadow.revision }
    })
  const save = useAction(replaceWithDrafts)
  const onSaved = () => {
    showToast("Shadow rules saved")
    refresh(shadowAtom)
  }
  const saveFirst = async () => {
    if ((await save.run()) !== undefined) onSaved()
  }
  if (!shadow.active) {
    return (
      <>
        <FailureNotice failure={save.failure}>
          {save.failure?.code === "RULES_CHANGED" ? (
            <Button small onClick={() => refresh(shadowAtom)}>
              Load the newest
            </Button>
          ) : undefined}
        </FailureNotice>
        <div>
          <Button pending={save.pending} onClick={() => void saveFirst()}>
            Save the rules on this page as shadow rules
          </Button>
        </div>
      </>
    )
  }
  const edit = () => onEdit(shadow.rules.map((rule) => ({ rule, isNew: false })))
  return (
    <div className="row-actions">
      <ConfirmButton
        kind="primary"
        label="Promote"
        title="Make the shadow rules live?"
        confirmLabel="Promote"
        act={() =>
          apiClient.approvalRules.promoteShadow({
            payload: { revision, shadow_revision: shadow.revision }
          })
        }
        onDone={(rules) => {
          showToast("Shadow rules are live")
          refresh(shadowAtom)
          onPromoted(rules)
        }}
      >
        They replace all live rules from the next step on, and their differences are no longer shown.
        {changed ? " Unsaved changes on this page are discarded." : ""}
      </ConfirmButton>
      <ConfirmButton
        kind="plain"
        label="Replace with the rules on this page"
        title="Replace the shadow rules?"
        confirmLabel="Replace"
        act={replaceWithDrafts}
        onDone={onSaved}
      >
        Differences are counted from the next step on. Those of the current shadow rules are no longer shown.
      </ConfirmButton>
      {changed ? (
        <ConfirmButton
          kind="plain"
          label="Edit on this page"
          title="Edit the shadow rules on this page?"
          confirmLabel="Edit"
          act={() => Effect.void}
          onDone={edit}
        >
          Unsaved changes on this page are discarded.
        </ConfirmButton>
      ) : (
        <Button small onClick={edit}>
          Edit on this page
        </Button>
      )}
      <ConfirmButton
        label="Remove"
        title="Remove the shadow rules?"
        confirmLabel="Remove"
        act={() => apiClient.approvalRules.removeShadow()}
        onDone={() => {
          showToast("Shadow rules removed")
          refresh(shadowAtom)
        }}
      >
        Their differences are no longer shown. The live rules stay as they are.
      </ConfirmButton>
    </div>
  )
}

const countText = (steps: number): string =>
  steps < MAX_COUNTED_DIFFERENCES
    ? steps.toLocaleString("en")
    : `${MAX_COUNTED_DIFFERENCES.toLocaleString("en")} or more`

const Differences = ({ revision }: { readonly revision: number }) => {
  const [pair, setPair] = useState<PairName>("")
  const counts = changesAtom(revision)
  const list = differencesAtom({ revision, pair })
  return (
    <AsyncContent atom={counts}>
      {({ changes }) => (
        <>
          <div className="row-actions">
            <InlineSelect
              label="Differences"
              value={pair}
              onChange={setPair}
              options={[
                ["", "All"],
                ...(changes ?? []).map(
                  (change) =>
                    [
                      nameOf(change),
                      `${effects[change.live].text} → ${effects[change.shadow].text}: ${countText(change.steps)}`
                    ] as const
                )
              ]}
            />
            <Button
              small
              onClick={() => {
                refresh(counts)
                refresh(list)
              }}
            >
              Reload
            </Button>
          </div>
          <PagedList atom={list}>
            {(differences) =>
              differences.length === 0 ? (
                <EmptyState title="No differences">
                  The shadow rules have the same effect on every step that was submitted since.
                </EmptyState>
              ) : (
                <ul className="rows" aria-label="Steps on which the shadow rules differ">
                  {differences.map((one) => (
                    <Difference key={`${one.session_id} ${one.step_id}`} difference={one} />
                  ))}
                </ul>
              )
            }
          </PagedList>
        </>
      )}
    </AsyncContent>
  )
}

const Difference = ({ difference }: { readonly difference: ShadowDifference }) => {
  const { approval_id, decision_source, live, outcome, requested_at, session_id, shadow, step_id, tool } =
    difference
  return (
    <li className="row">
      <div className="row-line">
        <span className="row-text">
          <span>
            <EffectBadge effect={live.effect} /> → <EffectBadge effect={shadow.effect} />{" "}
            <Link to={approval_id === null ? `/sessions/${session_id}` : `/approvals/${approval_id}`}>
              <UntrustedText text={tool} />
            </Link>{" "}
            <span className="quiet small">
              <UntrustedText text={step_id} />
            </span>
          </span>
          <span className="small">
            Live: <UntrustedText text={live.reason} />
          </span>
          <span className="small">
            Shadow: <UntrustedText text={shadow.reason} />
          </span>
          {decision_source === "human" && outcome !== null ? (
            <span className="small">A person {outcome === "allow" ? "approved" : "rejected"} it.</span>
          ) : null}
        </span>
        <span className="quiet small row-meta">
          <RelativeTime time={requested_at} />
        </span>
      </div>
    </li>
  )
}
