import shared from '@eventstore/db-client/generated/shared_pb.js';
import rpc from '@eventstore/db-client/generated/status_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import type { LogRecord, Proposal, Verdict } from './log.ts';
import { MAX_APPEND_BYTES } from './log.ts';

export interface AppendRequest {
  stream: string;
  expected: bigint | null;
  proposals: Proposal[];
}

export function streamName(identifier: shared.StreamIdentifier | undefined): string {
  return Buffer.from(identifier?.getStreamName_asU8() ?? []).toString('utf8');
}

export function proposal(message: streams.BatchAppendReq.ProposedMessage): Proposal {
  return {
    id: message.getId()?.getString() ?? '',
    type: message.getMetadataMap().get('type') ?? '',
    contentType: message.getMetadataMap().get('content-type') ?? '',
    data: message.getData_asU8(),
    metadata: message.getCustomMetadata_asU8(),
  };
}

export function expectedOfBatch(options: streams.BatchAppendReq.Options): bigint | null {
  if (options.hasStreamPosition()) return BigInt(options.getStreamPosition());
  return options.hasNoStream() ? -1n : null;
}

export function batchAnswer(
  request: AppendRequest,
  correlationId: shared.UUID,
  verdict: Verdict,
): streams.BatchAppendResp {
  const answer = batchAnswerTo(request.stream, correlationId);
  if (verdict.outcome === 'conflict') {
    const details = new shared.WrongExpectedVersion();
    if (verdict.actual !== null) details.setCurrentStreamRevision(verdict.actual.toString());
    if (request.expected !== null && request.expected >= 0n)
      details.setExpectedStreamPosition(request.expected.toString());
    return answer.setError(
      status('', 'event_store.client.WrongExpectedVersion', details.serializeBinary()),
    );
  }
  if (verdict.outcome === 'too_large') {
    const details = new shared.MaximumAppendSizeExceeded().setMaxappendsize(MAX_APPEND_BYTES);
    return answer.setError(
      status('', 'event_store.client.MaximumAppendSizeExceeded', details.serializeBinary()),
    );
  }
  const position = new shared.AllStreamPosition();
  position
    .setCommitPosition(verdict.position.toString())
    .setPreparePosition(verdict.position.toString());
  return answer.setSuccess(
    new streams.BatchAppendResp.Success()
      .setCurrentRevision(verdict.revision.toString())
      .setPosition(position),
  );
}

/** The answer of a node that has just started. */
export function notReady(
  request: AppendRequest,
  correlationId: shared.UUID,
): streams.BatchAppendResp {
  const details = new shared.BadRequest().setMessage('Server Is Not Ready');
  return batchAnswerTo(request.stream, correlationId).setError(
    status('Server Is Not Ready', 'event_store.client.BadRequest', details.serializeBinary()),
  );
}

function batchAnswerTo(stream: string, correlationId: shared.UUID): streams.BatchAppendResp {
  const identifier = new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
  return new streams.BatchAppendResp()
    .setCorrelationId(correlationId)
    .setStreamIdentifier(identifier);
}

function status(message: string, typeName: string, details: Uint8Array): rpc.Status {
  // Field 3 without content: an empty `Any`, whose class is not part of the client.
  const result = rpc.Status.deserializeBinary(Uint8Array.of(0x1a, 0));
  result.getDetails()?.pack(details, typeName);
  return result.setMessage(message);
}

export function eventAnswer(record: LogRecord): streams.ReadResp {
  const recorded = new streams.ReadResp.ReadEvent.RecordedEvent();
  recorded.setId(new shared.UUID().setString(record.id));
  recorded.setStreamIdentifier(
    new shared.StreamIdentifier().setStreamName(Buffer.from(record.stream)),
  );
  recorded.setStreamRevision(record.revision.toString());
  recorded
    .setCommitPosition(record.position.toString())
    .setPreparePosition(record.position.toString());
  recorded
    .getMetadataMap()
    .set('type', record.type)
    .set('content-type', record.contentType)
    .set('created', '0');
  recorded.setData(record.data).setCustomMetadata(record.metadata);
  const event = new streams.ReadResp.ReadEvent()
    .setEvent(recorded)
    .setCommitPosition(record.position.toString());
  return new streams.ReadResp().setEvent(event);
}

export function streamNotFound(stream: string): streams.ReadResp {
  const identifier = new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
  return new streams.ReadResp().setStreamNotFound(
    new streams.ReadResp.StreamNotFound().setStreamIdentifier(identifier),
  );
}

export function confirmation(): streams.ReadResp {
  return new streams.ReadResp().setConfirmation(
    new streams.ReadResp.SubscriptionConfirmation().setSubscriptionId(crypto.randomUUID()),
  );
}

export function checkpoint({
  commit,
  prepare,
}: {
  commit: bigint;
  prepare: bigint;
}): streams.ReadResp {
  const mark = new streams.ReadResp.Checkpoint()
    .setCommitPosition(commit.toString())
    .setPreparePosition(prepare.toString());
  return new streams.ReadResp().setCheckpoint(mark);
}

export function caughtUp(): streams.ReadResp {
  return new streams.ReadResp().setCaughtUp(new streams.ReadResp.CaughtUp());
}
