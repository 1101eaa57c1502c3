/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sisci_types.h - types, flags and queries of the SISCI interface.
 *
 * Handles are opaque. They are checked numbers, not addresses: one that is stale, of another
 * kind, or made up gives SCI_ERR_ILLEGAL_PARAMETER.
 */
#ifndef _SISCI_TYPES_H
#define _SISCI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "sisci_error.h"

/* An opened virtual device. */
typedef struct sci_desc *sci_desc_t;
/* Memory of this process that others may connect to. */
typedef struct sci_local_segment *sci_local_segment_t;
/* A connection to a segment of another process, or of this one. */
typedef struct sci_remote_segment *sci_remote_segment_t;
/* A part of a segment in the program's memory. */
typedef struct sci_map *sci_map_t;
typedef struct sci_sequence *sci_sequence_t;
typedef struct sci_dma_queue *sci_dma_queue_t;
typedef struct sci_local_interrupt *sci_local_interrupt_t;
typedef struct sci_remote_interrupt *sci_remote_interrupt_t;
typedef struct sci_local_data_interrupt *sci_local_data_interrupt_t;
typedef struct sci_remote_data_interrupt *sci_remote_data_interrupt_t;
typedef struct sci_block_transfer *sci_block_transfer_t;
/* SmartIO: no call that needs one is supported. */
typedef struct sci_device *sci_device_t;
typedef struct sci_pcie_requester *sci_pcie_requester_t;

typedef uint64_t sci_ioaddr_t;

typedef struct {
    unsigned short nodeId;
    unsigned short offsHi;
    unsigned int offsLo;
} sci_address_t;

typedef enum {
    SCI_CB_CONNECT         = 1, /* a node has connected */
    SCI_CB_DISCONNECT      = 2, /* it has left; or the owner asks to leave, or has ended the connection */
    SCI_CB_NOT_OPERATIONAL = 3, /* the way to the peer is out of order */
    SCI_CB_OPERATIONAL     = 4, /* it is in order again */
    SCI_CB_LOST            = 5  /* the peer is gone */
} sci_segment_cb_reason_t;

typedef enum {
    SCI_DMAQUEUE_IDLE    = 0,
    SCI_DMAQUEUE_GATHER  = 1,
    SCI_DMAQUEUE_POSTED  = 2,
    SCI_DMAQUEUE_DONE    = 3,
    SCI_DMAQUEUE_ABORTED = 4,
    SCI_DMAQUEUE_ERROR   = 5
} sci_dma_queue_state_t;

typedef enum {
    SCI_SEQ_OK            = 0,
    SCI_SEQ_RETRIABLE     = 1,
    SCI_SEQ_NOT_RETRIABLE = 2,
    SCI_SEQ_PENDING       = 3
} sci_sequence_status_t;

typedef enum {
    SCI_CALLBACK_CANCEL   = 1, /* no further calls */
    SCI_CALLBACK_CONTINUE = 2
} sci_callback_action_t;

typedef enum {
    SCI_DMA_TYPE_DONTCARE    = 1,
    SCI_DMA_TYPE_ADAPTER     = 2,
    SCI_DMA_TYPE_GLOBAL      = 3,
    SCI_DMA_TYPE_SYSTEM      = 4,
    SCI_DMA_TYPE_TRANSPARENT = 5
} dis_dma_type_t;

/* Each runs on a thread of its object alone, and may call anything but what waits for itself. */
typedef sci_callback_action_t (*sci_cb_local_segment_t)(void *arg, sci_local_segment_t segment, sci_segment_cb_reason_t reason,
                                                        unsigned int nodeId, unsigned int localAdapterNo, sci_error_t error);
typedef sci_callback_action_t (*sci_cb_remote_segment_t)(void *arg, sci_remote_segment_t segment, sci_segment_cb_reason_t reason,
                                                         sci_error_t status);
typedef sci_callback_action_t (*sci_cb_dma_t)(void *arg, sci_dma_queue_t queue, sci_error_t status);
typedef sci_callback_action_t (*sci_cb_block_transfer_t)(void *arg, sci_block_transfer_t block, sci_error_t status);
typedef sci_callback_action_t (*sci_cb_interrupt_t)(void *arg, sci_local_interrupt_t interrupt, sci_error_t status);
typedef sci_callback_action_t (*sci_cb_data_interrupt_t)(void *arg, sci_local_data_interrupt_t interrupt, void *data,
                                                         unsigned int length, sci_error_t status);

/* A part of a transfer of SCIStartDmaTransferVec(). */
typedef struct {
    uint32_t size;
    uint32_t local_offset;
    uint32_t remote_offset;
    uint32_t flags;
} dis_dma_vec_t;
#define DIS_DMA_MAX_VECLEN 128

/* SCIQuery() */
#define SCI_Q_VENDORID       1u /* sci_query_string_t */
#define SCI_Q_API            2u /* sci_query_string_t: the version */
#define SCI_Q_ADAPTER        3u /* sci_query_adapter_t */
#define SCI_Q_SYSTEM         4u /* sci_query_system_t */
#define SCI_Q_LOCAL_SEGMENT  5u /* sci_query_local_segment_t */
#define SCI_Q_REMOTE_SEGMENT 6u /* sci_query_remote_segment_t */
#define SCI_Q_MAP            7u /* sci_query_map_t */
#define SCI_Q_DMA            8u /* sci_query_dma_t */

/* Subcommands; data points to an unsigned int unless it is said. */
#define SCI_Q_ADAPTER_NODEID           1u
#define SCI_Q_ADAPTER_SERIAL_NUMBER    2u
#define SCI_Q_ADAPTER_CARD_TYPE        3u
#define SCI_Q_ADAPTER_DMA_MTU          4u
#define SCI_Q_ADAPTER_LINK_OPERATIONAL 5u
#define SCI_Q_ADAPTER_CONFIGURED       6u
#define SCI_Q_ADAPTER_BDF              7u
#define SCI_Q_SYSTEM_HOSTBRIDGE        1u
#define SCI_Q_LOCAL_SEGMENT_IOADDR     1u
#define SCI_Q_LOCAL_SEGMENT_PHYS_ADDR  2u
#define SCI_Q_REMOTE_SEGMENT_IOADDR    1u
#define SCI_Q_MAP_SIZE                 1u /* data points to a size_t */
#define SCI_Q_DMA_AVAILABLE            1u

typedef struct {
    char *str;
    unsigned int length; /* of str, in bytes */
} sci_query_string_t;

typedef struct {
    unsigned int localAdapterNo;
    unsigned int portNo;
    unsigned int subcommand;
    void *data;
} sci_query_adapter_t;

typedef struct {
    unsigned int subcommand;
    void *data;
} sci_query_system_t;

typedef struct {
    sci_local_segment_t segment;
    unsigned int subcommand;
    union {
        sci_ioaddr_t ioaddr;
    } data;
} sci_query_local_segment_t;

typedef struct {
    sci_remote_segment_t segment;
    unsigned int subcommand;
    union {
        sci_ioaddr_t ioaddr;
    } data;
} sci_query_remote_segment_t;

typedef struct {
    sci_map_t map;
    unsigned int subcommand;
    void *data;
} sci_query_map_t;

typedef struct {
    unsigned int localAdapterNo;
    unsigned int subcommand;
    void *data;
} sci_query_dma_t;

#define SCI_INFINITE_TIMEOUT             0xffffffffu
#define SCI_LOCAL_HOST                   0u
#define DIS_BROADCAST_NODEID_GROUP_ALL   252u
#define SCI_DMA_CHANNEL_ID_DONTCARE      0xffffffffu

/* Flags. A call that does not have a flag says SCI_ERR_ILLEGAL_FLAG. */
#define SCI_FLAG_USE_CALLBACK            0x1u
#define SCI_FLAG_THREAD_SAFE             0x1u /* SCIOpen: all calls are */
#define SCI_FLAG_ASYNCHRONOUS_CONNECT    0x2u

/* segments */
#define SCI_FLAG_EMPTY                   0x2u
#define SCI_FLAG_PRIVATE                 0x4u
#define SCI_FLAG_DMA_SOURCE_ONLY         0x8u
#define SCI_FLAG_FORCE_REMOVE            0x20u
#define SCI_FLAG_LOCK_USER_MEM           0x400u
#define SCI_FLAG_PHYSICAL                0x1000u
#define SCI_FLAG_CUDA_BUFFER             0x2000u
#define SCI_FLAG_SCIF_BUFFER             0x4000u
#define SCI_FLAG_BROADCAST               0x40000u
#define SCI_FLAG_AUTO_ID                 0x20000000u
#define SCI_FLAG_NOTIFY                  0x1u /* SCISetSegmentUnavailable */
#define SCI_FLAG_FORCE_DISCONNECT        0x2u

/* maps */
#define SCI_FLAG_FIXED_MAP_ADDR          0x1u
#define SCI_FLAG_READONLY_MAP            0x2u
#define SCI_FLAG_LOCK_OPERATION          0x4u
#define SCI_FLAG_CONDITIONAL_INTERRUPT_MAP 0x8u
#define SCI_FLAG_UNCONDITIONAL_DATA_INTERRUPT_MAP 0x10u
#define SCI_FLAG_IO_MAP_IOSPACE          0x80u
#define SCI_FLAG_NO_MEMORY_LOOPBACK      0x800u
#define SCI_FLAG_NO_MEMORY_LOOPBACK_MAP  SCI_FLAG_NO_MEMORY_LOOPBACK
#define SCI_FLAG_SHARED_MAP              0x2000u
#define SCI_FLAG_WRITE_BACK_CACHE_MAP    0x08000000u

/* sequences and copies */
#define SCI_FLAG_NO_FLUSH                0x1u
#define SCI_FLAG_NO_STORE_BARRIER        0x2u
#define SCI_FLAG_FAST_BARRIER            0x1u
#define SCI_FLAG_FLUSH_CPU_BUFFERS_ONLY  0x4u
#define SCI_FLAG_BLOCK_READ              0x1u /* SCIMemCpy: from the map into memory */
#define SCI_FLAG_ERROR_CHECK             0x2u
#define SCI_FLAG_CACHE_FLUSH             0x100000u
#define SCI_FLAG_CACHE_INVALIDATE        0x200000u

/* DMA */
#define SCI_FLAG_DMA_CHANNEL_SHARED      0x1u
#define SCI_FLAG_DMA_WAIT                0x4u
#define SCI_FLAG_DMA_POST                0x8u
#define SCI_FLAG_DMA_READ                0x10u
#define SCI_FLAG_DMA_PHDMA               0x20u
#define SCI_FLAG_DMA_GLOBAL              0x40u
#define SCI_FLAG_DMA_ALLOW_UNICAST       0x80u
#define SCI_FLAG_DMA_SYSDMA              0x100u
#define SCI_FLAG_DMA_USER_MEM            0x200u
#define SCI_FLAG_DMA_ADAPTER             0x800u
#define SCI_FLAG_DMA_RESET               0x1000u

/* interrupts */
#define SCI_FLAG_FIXED_INTNO             0x2u
#define SCI_FLAG_SHARED_INT              0x4u
#define SCI_FLAG_CONDITIONAL_INTERRUPT   0x8u
#define SCI_FLAG_COUNTING_INT            0x20u
#define SCI_FLAG_SHARE_EXTERNAL          0x40u

/* SmartIO */
#define SCI_FLAG_PCIE_REQUESTER_GLOBAL   0x1u
#define SCI_MEMTYPE_BAR                  1u
#define SCI_MEMTYPE_PRIVATE              2u
#define SCI_MEMTYPE_SHARED               4u
#define SCI_MEMACCESS_DEVICE_READ        0x1u
#define SCI_MEMACCESS_DEVICE_WRITE       0x2u
#define SCI_MEMACCESS_HOST_READ          0x4u
#define SCI_MEMACCESS_HOST_WRITE         0x8u
#define SCI_MEMACCESS_MULTIHOST          0x10u
#define SCI_MEMACCESS_P2P                0x20u

#endif
