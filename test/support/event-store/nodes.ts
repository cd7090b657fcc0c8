import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import gossip from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import gossipPb from '@eventstore/db-client/generated/gossip_pb.js';
import operations from '@eventstore/db-client/generated/operations_grpc_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { type ChannelCredentials, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';

const ANSWER_WITHIN_MS = 5_000;
const COMMAND_WITHIN_MS = 120_000;
const URL_PARTS = /^esdb(?:\+discover)?:\/\/(?:([^:@/?]+):([^@/?]+)@)?([^/?]+)/;

/** How to reach the nodes of an EventStoreDB for calls that the client lacks. */
export interface Nodes {
  /** HOST:PORT of each node in the URL. */
  hosts: string[];
  ca: Buffer | null;
  credentials: ChannelCredentials;
  /** The sign-in, if the URL has one. */
  authorization: string | null;
}

export function nodesOf(url: string): Nodes {
  const [, user, password, hosts = ''] = URL_PARTS.exec(url) ?? [];
  const caFile = /tlsCaFile=([^&]+)/i.exec(url)?.[1];
  const ca = caFile ? readFileSync(decodeURIComponent(caFile)) : null;
  const signIn = [user, password].map((part) => decodeURIComponent(part ?? '')).join(':');
  return {
    hosts: hosts.split(','),
    ca,
    credentials: ca === null ? credentials.createInsecure() : credentials.createSsl(ca),
    authorization: user ? `Basic ${Buffer.from(signIn).toString('base64')}` : null,
  };
}

/** Returns the sign-in for a call of gRPC. */
export function signInOf({ authorization }: Nodes): Metadata {
  const metadata = new Metadata();
  if (authorization) metadata.set('authorization', authorization);
  return metadata;
}

/** Returns HOST:PORT of the leader, as the first node says that knows one; null if none does. */
export async function findLeader(nodes: Nodes): Promise<string | null> {
  for (const host of nodes.hosts) {
    const client = new gossip.GossipClient(host, nodes.credentials);
    const info = await answer<gossipPb.ClusterInfo>((done) =>
      client.read(new shared.Empty(), new Metadata(), { deadline: deadline() }, done),
    ).catch(() => null);
    client.close();
    const { LEADER } = gossipPb.MemberInfo.VNodeState;
    const leader = info
      ?.getMembersList()
      .find((member) => member.getState() === LEADER && member.getIsAlive())
      ?.getHttpEndPoint();
    if (leader) return `${leader.getAddress()}:${leader.getPort()}`;
  }
  return null;
}

/** Lets the leader resign: the others elect one. The user needs the rights of an administrator. */
export async function resign(nodes: Nodes, leader: string): Promise<void> {
  const client = new operations.OperationsClient(leader, nodes.credentials);
  const metadata = signInOf(nodes);
  await answer((done) =>
    client.resignNode(new shared.Empty(), metadata, { deadline: deadline() }, done),
  ).finally(() => client.close());
}

/** Runs an operator's command for one node, in a shell. Throws its output if it fails. */
export async function runCommand(command: string, node: string): Promise<void> {
  // An EventStoreDB reads each variable that starts with EVENTSTORE_ as an option.
  const { EVENTSTORE_URL: _, ...others } = process.env;
  const env = { ...others, CHAOS_EVENTSTORE_NODE: node };
  await promisify(execFile)('sh', ['-c', command], { env, timeout: COMMAND_WITHIN_MS });
}

const deadline = () => Date.now() + ANSWER_WITHIN_MS;

function answer<T>(
  call: (done: (error: ServiceError | null, answered: T) => void) => unknown,
): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, answered) => (error ? reject(error) : resolve(answered)));
  });
}
