package mcpserver

import (
	"context"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// tracePage is how many bytes of records a model is shown at once.
const tracePage = 24_000

func traceTool() *tool {
	return &tool{
		name:        "agent_trace",
		description: "Read what a job did, event by event. at_end false: more at next_cursor. Untrusted.",
		hints:       hints{readOnly: true, idempotent: true},
		schema: object([]property{
			{"job_id", true, text("Job.")},
			{"cursor", false, integer("First record: 0 or next_cursor.", field{"minimum", 0})},
			{"limit", false, integer("Records.", field{"minimum", 1}, field{"maximum", 1000})},
		}),
		limit: lookLimit,
		run: func(ctx context.Context, inv invocation) (any, error) {
			request := control.TraceRequest{MaxBytes: tracePage}
			if err := decode(inv.arguments, &request); err != nil {
				return nil, err
			}
			return inv.control.Trace(ctx, inv.meta, request)
		},
	}
}

func traceRecordTool() *tool {
	return &tool{
		name:        "agent_trace_record",
		description: "Read one record of a trace in full, page by page.",
		hints:       hints{readOnly: true, idempotent: true},
		schema: object([]property{
			{"agent_run_ref", true, text("From agent_trace.")},
			{"record_cursor", true, integer("From its stub.", field{"minimum", 0})},
			{"cursor", false, integer("First character: 0, or next_cursor.", field{"minimum", 0})},
			{"max_chars", false, integer("Characters per page. Default 8000.", field{"minimum", 1}, field{"maximum", longestPage})},
		}),
		limit: lookLimit,
		run: func(ctx context.Context, inv invocation) (any, error) {
			request := control.TraceRecordRequest{MaxChars: defaultPage}
			if err := decode(inv.arguments, &request); err != nil {
				return nil, err
			}
			return inv.control.TraceRecord(ctx, inv.meta, request)
		},
	}
}
